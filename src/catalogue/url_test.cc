#include "catalogue/url.h"

#include <gtest/gtest.h>

namespace stoker::catalogue {
namespace {

TEST(Url, IsReadAndWritten) {
  const auto url = parse_url("https://example.org/models/a");
  ASSERT_TRUE(url);
  EXPECT_EQ(*url, (Url{true, "example.org", "443", "/models/a"}));
  EXPECT_EQ(url->at("index").text(), "https://example.org/models/a/index");
  EXPECT_EQ(parse_url("http://localhost:8080")->text(), "http://localhost:8080/");
  EXPECT_EQ(parse_url("http://[::1]:80/x/")->at("y").text(), "http://[::1]/x/y");
  EXPECT_EQ(parse_url("http://[::1]:81")->authority(), "[::1]:81");
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* const text : {"",
                                 "ftp://a/b",
                                 "http://",
                                 "http:///a",
                                 "http://a:0",
                                 "http://a:65536",
                                 "http://a:08",
                                 "http://a:80x",
                                 "http://a:",
                                 "http://user@a/",
                                 "http://a b/",
                                 "http://a/b c",
                                 "http://a/b#c",
                                 "http://a/b?c",
                                 "http://[::1",
                                 "http://[]/",
                                 "http://[x]/",
                                 "http://a/\r\nHost: b",
                                 "http://a/\xc3\xa4",
                                 "https//a",
                                 "http://a?b"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(parse_url("http://a/" + std::string(kMaxUrlBytes, 'a')));
}

TEST(Url, OfAServerMayBeASocket) {
  const auto socket = parse_server("unix:/run/a b/stoker.sock");
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->socket, "/run/a b/stoker.sock");
  EXPECT_EQ(socket->at("admin").text(), "unix:/run/a b/stoker.sock/admin");
  EXPECT_EQ(socket->authority(), "localhost");
  EXPECT_EQ(parse_server("http://a:81")->text(), "http://a:81/");
  for (const std::string& text :
       {std::string("unix:"), std::string("unix:a\0b", 8), std::string("a")})
    EXPECT_EQ(parse_server(text).error().code, ErrorCode::kInvalidArgument) << text;
  EXPECT_FALSE(parse_url("unix:/run/stoker.sock"));
}

TEST(Url, IsRedirectedToTlsOrWithinItsHost) {
  const Url plain = *parse_url("http://a/x");
  const Url tls = *parse_url("https://a/x");
  EXPECT_EQ(redirected(plain, "/y?sig=1")->text(), "http://a/y?sig=1");
  EXPECT_EQ(redirected(plain, "http://a:81/y")->text(), "http://a:81/y");
  EXPECT_EQ(redirected(plain, "https://b/y")->text(), "https://b/y");
  EXPECT_EQ(redirected(tls, "https://b/y")->text(), "https://b/y");
  EXPECT_EQ(redirected(tls, "/y")->text(), "https://a/y");
  EXPECT_EQ(redirected(plain, "http://b/y").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(redirected(tls, "http://a/y").error().code, ErrorCode::kUnsupported);
  for (const char* const location : {"", "y", "//b/y", "/y z", "file:///etc/passwd"})
    EXPECT_EQ(redirected(tls, location).error().code, ErrorCode::kCorruptData) << location;
}

}  // namespace
}  // namespace stoker::catalogue
