#include "server/batch_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "server/batch_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class BatchOutputTest : public FolderTest {
 protected:
  // The file after a run that adds "new", with what it held before.
  std::string after_run(const std::string& before) {
    write("out", before);
    auto out = open_output("out");
    if (!out) return "error: " + out.error().message;
    EXPECT_EQ(read("out"), before) << "open() changed it";
    if (auto begun = out->begin(); !begun) return "error: " + begun.error().message;
    EXPECT_TRUE(out->append(done("new")).has_value());
    EXPECT_TRUE(out->finish().has_value());
    EXPECT_EQ(num_files(), 1);
    return read("out");
  }

  std::string refusal_of(const std::string& content) {
    write("out", content);
    const auto out = open_output("out");
    EXPECT_EQ(read("out"), content);
    if (out) return "none";
    EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
    return out.error().message;
  }
};

TEST_F(BatchOutputTest, MakesTheFile) {
  auto out = open_output("out");
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(out->begin().has_value());
  ASSERT_TRUE(out->append("a\n").has_value());
  ASSERT_TRUE(out->append("b\n").has_value());
  EXPECT_EQ(read("out"), "a\nb\n");
}

TEST_F(BatchOutputTest, KeepsWhatIsFinished) {
  write("out", done("a") + done("b", 404) + done("c", 503) + done("c"));
  const auto out = open_output("out");
  ASSERT_TRUE(out.has_value());
  EXPECT_TRUE(out->is_finished("a"));
  EXPECT_TRUE(out->is_finished("b"));
  EXPECT_TRUE(out->is_finished("c"));
  EXPECT_FALSE(out->is_finished("d"));
  EXPECT_EQ(out->num_finished(), 3);
}

TEST_F(BatchOutputTest, EveryCutIsRepaired) {
  const std::string whole = done("a"), last = done("b");
  for (size_t n = 0; n < last.size(); n += 5) {
    EXPECT_EQ(after_run(whole + last.substr(0, n)), whole + done("new")) << n;
    EXPECT_EQ(after_run(last.substr(0, n)), done("new")) << n;
  }
  EXPECT_EQ(after_run(whole + last.substr(0, 40) + std::string(9, '\0')), whole + done("new"));
  EXPECT_EQ(after_run(whole + last.substr(0, 40) + "\n"), whole + done("new"));
}

TEST_F(BatchOutputTest, LinesToBeMadeAgainGo) {
  const std::string error = error_line("1", {{}, "invalid_line", "line 1: x"});
  EXPECT_EQ(after_run(done("x", 500) + done("a") + error + "\n" + done("b", 400) + done("y", 429) +
                      done("c").substr(0, 30)),
            done("a") + done("b", 400) + done("new"));
}

TEST_F(BatchOutputTest, TheSecondFileHasTheModeAndTheLock) {
  write("out", done("x", 500) + done("a"));
  ASSERT_EQ(chmod(path("out").c_str(), 0640), 0);
  ASSERT_EQ(symlink("out", path("link").c_str()), 0);
  write("out.stoker-resume", "of a run that was killed");
  auto out = open_output("link");
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(out->begin().has_value());
  EXPECT_EQ(read("out"), done("a"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(num_files(), 2);
  struct stat status {};
  ASSERT_EQ(stat(path("out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  const auto other = open_output("out");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kOverloaded);
}

TEST_F(BatchOutputTest, OneRunAtATime) {
  {
    const auto out = open_output("out");
    ASSERT_TRUE(out.has_value());
    const auto other = open_output("out", true);
    ASSERT_FALSE(other.has_value());
    EXPECT_EQ(other.error().code, ErrorCode::kOverloaded);
    EXPECT_THAT(other.error().message, HasSubstr("another run"));
  }
  EXPECT_TRUE(open_output("out").has_value());
}

TEST_F(BatchOutputTest, OtherFilesAreRefused) {
  EXPECT_THAT(refusal_of("# A text\n"), HasSubstr("found line 1,"));
  EXPECT_THAT(refusal_of("a text without a line feed"), HasSubstr("found line 1,"));
  EXPECT_THAT(refusal_of(done("a") + "text\n"), HasSubstr("found line 2,"));
  EXPECT_THAT(refusal_of(done("a") + done("b").substr(0, 40) + "\n" + done("c")),
              HasSubstr("found line 2,"));
  EXPECT_THAT(refusal_of(R"({"custom_id":"a","method":"POST","url":"/x","body":{}})"
                         "\n"),
              HasSubstr("--overwrite"));
}

TEST_F(BatchOutputTest, OverwriteBeginsAnew) {
  write("out", "# A text\n");
  auto out = open_output("out", true);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(read("out"), "# A text\n");
  ASSERT_TRUE(out->begin().has_value());
  EXPECT_EQ(read("out"), "");
}

TEST_F(BatchOutputTest, TheInputIsNotWritten) {
  write("in", "x");
  const int input = open(path("in").c_str(), O_RDONLY);
  const auto out = open_output("in", true, input);
  close(input);
  ASSERT_FALSE(out.has_value());
  EXPECT_THAT(out.error().message, HasSubstr("found the input"));
  EXPECT_EQ(read("in"), "x");
}

TEST_F(BatchOutputTest, WhatCannotBeOpened) {
  for (const std::string& name : {std::string("none/out"), std::string(".")}) {
    const auto out = open_output(name);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, ErrorCode::kIo);
  }
}

TEST_F(BatchOutputTest, AFullDisk) {
  auto out = BatchOutput::open({"/dev/full"});
  ASSERT_TRUE(out.has_value()) << out.error().message;
  ASSERT_TRUE(out->begin().has_value());
  const auto written = out->append("a\n");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
  EXPECT_THAT(written.error().message, HasSubstr("No space left"));
}

// A write that the system cuts: as on a full disk, by a limit on the size of a file.
TEST_F(BatchOutputTest, HalfALineIsTakenBack) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  auto out = open_output("out");
  ASSERT_TRUE(out.has_value() && out->begin().has_value());
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const bool is_first_there = out->append("1234567\n").has_value();
  const auto second = out->append("1234567\n");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(is_first_there);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("File too large"));
  EXPECT_EQ(read("out"), "1234567\n");
}

// A pipe takes a long line in pieces.
TEST_F(BatchOutputTest, APipeIsOnlyWrittenTo) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string received;
  std::jthread reader([&] { received = read("pipe"); });
  const std::string line = std::string(1'000'000, 'x') + "\n";
  {
    auto out = open_output("pipe");
    ASSERT_TRUE(out.has_value());
    ASSERT_TRUE(out->begin().has_value());
    EXPECT_TRUE(out->append(line).has_value());
    EXPECT_TRUE(out->finish().has_value());
  }
  reader.join();
  EXPECT_EQ(received, line);
}

}  // namespace
}  // namespace stoker
