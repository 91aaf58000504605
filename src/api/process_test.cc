// How a process ends whose files are shortened while they are mapped.
#include "stoker/process.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/mapped_file.h"
#include "snapshot/store_fixture.h"

namespace stoker {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kObjectBytes = 50'000;

class ProcessTest : public snapshot::StoreTest {
 protected:
  // The exit code of a child that reads a byte of a mapping, and what it wrote.
  template <class Touch>
  int touched(const Touch& touch, std::string& said) const {
    const std::filesystem::path log = dir_ / "stderr";
    const int code = snapshot::run_in_child([&] {
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) return 98;
      install_mapping_guard();
      touch();
      return 99;
    });
    said = snapshot::text_in(log);
    return code;
  }
};

TEST_F(ProcessTest, AnObjectThatIsShortenedEndsItWithItsPlace) {
  const auto section = put(open_store(), key_, snapshot::made_bytes(kObjectBytes, 1));
  const std::filesystem::path path = objects() / section.object();
  const auto object = open_store().map(section);
  ASSERT_TRUE(object) << object.error().message;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::filesystem::resize_file(path, 4096);
  std::string said;
  const auto touch = [&] {
    static_cast<void>(*const_cast<volatile const uint8_t*>(&object->bytes()[40'001]));
  };
  EXPECT_EQ(touched(touch, said), kDamagedExitCode);
  EXPECT_THAT(said, HasSubstr(section.object() + ", offset 40001: the file was shortened"));
  EXPECT_THAT(said, EndsWith("stopping\n"));
}

TEST_F(ProcessTest, SoDoesAFileOfACheckpoint) {
  const std::filesystem::path path = dir_ / "model.safetensors";
  std::ofstream(path) << std::string(kObjectBytes, 'x');
  const auto file = MappedFile::open(path.string());
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 0);
  std::string said;
  const auto touch = [&] {
    static_cast<void>(*const_cast<volatile const uint8_t*>(&file->bytes()[0]));
  };
  EXPECT_EQ(touched(touch, said), kDamagedExitCode);
  EXPECT_THAT(said, HasSubstr(path.string() + ", offset 0: the file was shortened"));
}

}  // namespace
}  // namespace stoker
