#include "server/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;

// "name(filename):content|" of each part, or what is wrong.
std::string read_form(const std::string& body, size_t piece_bytes) {
  std::string told;
  MultipartParser parser("XX", {[&told](const MultipartPart& part) {
                                  told +=
                                      "|" + part.name + "(" + part.filename.value_or("-") + "):";
                                  return Result<void>();
                                },
                                [&told](std::string_view bytes) {
                                  told += bytes;
                                  return Result<void>();
                                }});
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    if (auto fed = parser.feed(body.substr(at, piece_bytes)); !fed) return fed.error().message;
  }
  if (auto finished = parser.finish(); !finished) return finished.error().message;
  return told;
}

std::string part_of(const std::string& head, const std::string& content) {
  return "--XX\r\n" + head + "\r\n\r\n" + content + "\r\n";
}

const std::string kFileHead = R"(Content-Disposition: form-data; name="file"; filename="a.jsonl")";

TEST(Multipart, IsReadInPiecesAsWhole) {
  const std::string content = "\r\n--X\r\n--XY\n\r\r\n-- XX";  // almost a boundary
  const std::string body = part_of("content-disposition: form-data; name=purpose", "batch") +
                           part_of(kFileHead + "\r\nContent-Type: text/plain", content) +
                           part_of(kFileHead, "") + "--XX--\r\nwhatever";
  const std::string expected = "|purpose(-):batch|file(a.jsonl):" + content + "|file(a.jsonl):";
  for (const size_t piece_bytes : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, body.size()})
    EXPECT_EQ(read_form(body, piece_bytes), expected) << piece_bytes;
}

TEST(Multipart, NamesInQuotes) {
  EXPECT_EQ(
      read_form(
          part_of(R"(Content-Disposition: form-data; filename="a;\"b\\c=.txt" ; name="f")", "") +
              "--XX--",
          100),
      R"(|f(a;"b\c=.txt):)");
}

TEST(Multipart, WhatIsNoFormIsRefused) {
  const std::string good = part_of(kFileHead, "x");
  const std::string long_head(9000, 'x');
  const struct {
    std::string body, told;
  } rows[] = {
      {"", "found its end"},
      {good, "found its end"},
      {good + "--XX-", "found its end"},
      {"text before\r\n" + good, "first, found something else"},
      {"--XX;\r\n", "behind a boundary, found something else"},
      {"--XX" + std::string(100, ' ') + "\r\n", "a line break behind a boundary"},
      {part_of("nonsense", ""), "lines of NAME: VALUE"},
      {part_of("Content-Type: text/plain", ""), "with a Content-Disposition"},
      {part_of("Content-Disposition: attachment; name=x", ""), "form-data"},
      {part_of("Content-Disposition: form-data", ""), "a name of 1 to 64 bytes"},
      {part_of("Content-Disposition: form-data; name=\"x", ""), "a name of 1 to 64 bytes"},
      {part_of("Content-Disposition: form-data; name=\"\xff\"", ""), "a name of 1 to 64 bytes"},
      {part_of("Content-Disposition: form-data; name=x; filename=" + std::string(256, 'f'), ""),
       "a filename of at most 255"},
      {part_of(kFileHead + "\r\nContent-Transfer-Encoding: base64", ""), "Transfer-Encoding"},
      {part_of(kFileHead + "\r\nX: " + long_head, ""), "at most 8192 bytes above a part"},
  };
  for (const auto& row : rows) {
    for (const size_t piece_bytes : {size_t{1}, size_t{5}, size_t{10'000}})
      EXPECT_THAT(read_form(row.body, piece_bytes), HasSubstr(row.told)) << row.body.substr(0, 99);
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += good;
  EXPECT_THAT(read_form(many + "--XX--", 100), HasSubstr("at most 16 parts"));
}

TEST(Multipart, ErrorsOfHandlersEndIt) {
  const Error full{ErrorCode::kResourceExhausted, "full", ""};
  MultipartParser parser("XX", {[](const MultipartPart&) { return Result<void>(); },
                                [&full](std::string_view) { return Result<void>(full); }});
  const auto fed = parser.feed(part_of(kFileHead, "some content"));
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, ErrorCode::kResourceExhausted);
}

TEST(Multipart, Boundaries) {
  EXPECT_EQ(multipart_boundary(" boundary=ab-c ; charset=utf-8"), "ab-c");
  EXPECT_EQ(multipart_boundary("charset=\"a;b\"; Boundary=\"a b'\""), "a b'");
  for (const char* none : {"", " ", "charset=x", "boundary", "boundary=", "boundary=\"",
                           "boundary=\"a ", "boundary=\"a \"", "boundary=a\"b"})
    EXPECT_EQ(multipart_boundary(none), std::nullopt) << none;
  EXPECT_EQ(multipart_boundary("boundary=" + std::string(70, 'b')), std::string(70, 'b'));
  EXPECT_EQ(multipart_boundary("boundary=" + std::string(71, 'b')), std::nullopt);
}

}  // namespace
}  // namespace stoker
