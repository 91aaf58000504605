#include "server/line_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "server/id_set.h"

namespace stoker {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

File file_of(const std::string& content) {
  File file(std::tmpfile());
  EXPECT_EQ(std::fwrite(content.data(), 1, content.size(), file.get()), content.size());
  std::fflush(file.get());
  std::rewind(file.get());
  return file;
}

// Lines; "<long>" for one that is too long.
std::vector<std::string> read_lines(LineReader& reader) {
  std::vector<std::string> lines;
  while (true) {
    std::string_view line;
    switch (reader.next(line)) {
      case LineReader::State::kLine:
        lines.emplace_back(line);
        break;
      case LineReader::State::kTooLong:
        lines.emplace_back("<long>");
        break;
      case LineReader::State::kNeedsFill:
        EXPECT_TRUE(reader.fill().has_value());
        break;
      case LineReader::State::kEnd:
        return lines;
    }
  }
}

std::vector<std::string> lines_of(const std::string& content, size_t max_line_bytes = 1000) {
  const File file = file_of(content);
  LineReader reader(fileno(file.get()), max_line_bytes);
  std::vector<std::string> lines = read_lines(reader);
  EXPECT_EQ(reader.offset(), static_cast<int64_t>(content.size()));
  EXPECT_EQ(reader.had_line_feed(), content.empty() || content.back() == '\n');
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineReader, Lines) {
  EXPECT_EQ(lines_of(""), Lines());
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\n\nbc\r\n"), (Lines{"a", "", "bc\r"}));
  EXPECT_EQ(lines_of(std::string("a\0b\nc", 5)), (Lines{std::string("a\0b", 3), "c"}));
}

TEST(LineReader, TheLimit) {
  EXPECT_EQ(lines_of("123\n1234\n12345\n1\n", 4), (Lines{"123", "1234", "<long>", "1"}));
  EXPECT_EQ(lines_of("12345", 4), Lines{"<long>"});
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(lines_of("a\n" + large + "\nb\n" + large), (Lines{"a", "<long>", "b", "<long>"}));
  EXPECT_EQ(lines_of("a\n" + large + "\nb\n", large.size()), (Lines{"a", large, "b"}));
}

TEST(LineReader, APipeGivesWhatIsThere) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  LineReader reader(ends[0], 100);
  std::string_view line;
  ASSERT_EQ(write(ends[1], "one\ntw", 6), 6);
  EXPECT_EQ(reader.next(line), LineReader::State::kNeedsFill);
  ASSERT_TRUE(reader.fill().has_value());
  EXPECT_EQ(reader.next(line), LineReader::State::kLine);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(reader.offset(), 4);
  EXPECT_EQ(reader.next(line), LineReader::State::kNeedsFill);
  ASSERT_EQ(write(ends[1], "o", 1), 1);
  ASSERT_TRUE(reader.fill().has_value());
  EXPECT_EQ(reader.next(line), LineReader::State::kNeedsFill);
  close(ends[1]);
  ASSERT_TRUE(reader.fill().has_value());
  EXPECT_EQ(reader.next(line), LineReader::State::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader.next(line), LineReader::State::kEnd);
  close(ends[0]);
}

TEST(LineReader, AFailedRead) {
  LineReader reader(-1, 100);
  const auto filled = reader.fill();
  ASSERT_FALSE(filled.has_value());
  EXPECT_EQ(filled.error().code, ErrorCode::kIo);
}

TEST(CountLines, AsTheReaderSeesThem) {
  const std::string contents[] = {"",
                                  "\n",
                                  "a",
                                  "a\n",
                                  " \n\t\r\n a\n\nb \n\n c",
                                  "a\n \n",
                                  std::string(300'000, 'x') + "\n" + std::string(300'000, ' ') +
                                      "\n" + std::string(300'000, ' ') + "y\nz"};
  for (const std::string& content : contents) {
    const File file = file_of(content);
    int64_t expected = 0;
    for (const std::string& line : lines_of(content, 1'000'000)) expected += is_blank(line) ? 0 : 1;
    const auto count = count_lines(fileno(file.get()));
    ASSERT_TRUE(count.has_value());
    EXPECT_EQ(*count, expected) << content.substr(0, 40);
  }
}

TEST(IdSet, HoldsWhatWasPutIn) {
  IdSet ids;
  EXPECT_FALSE(ids.contains(""));
  for (int i = 0; i < 100'000; i += 2) EXPECT_TRUE(ids.insert("request-" + std::to_string(i)));
  for (int i = 0; i < 100'000; i += 2) EXPECT_FALSE(ids.insert("request-" + std::to_string(i)));
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_EQ(ids.contains("request-" + std::to_string(i)), i % 2 == 0);
  }
  EXPECT_EQ(ids.size(), 50'000);
}

// The published values of both functions.
TEST(IdSet, Hashes) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
}

}  // namespace
}  // namespace stoker
