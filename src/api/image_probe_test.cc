#include "api/image_probe.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "snapshot/store_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(ImageProbe, VersionsAreReadOrThereAreNone) {
  EXPECT_EQ(version_in("Version: 3.17.1\nGitID: 0\n", "Version: "), std::pair(3, 17));
  EXPECT_EQ(version_in("Version: 4.2", "Version: "), std::pair(4, 2));
  EXPECT_EQ(version_in("6.1.0-18-amd64", ""), std::pair(6, 1));
  for (const char* const bad : {"", "Version: ", "Version: 4", "Version: 4.", "Version: .2", "4.2",
                                "Version: 1234567.1", "Version: 4.99999999999", "Version: -4.2"})
    EXPECT_FALSE(version_in(bad, "Version: ")) << bad;
}

TEST(ImageProbe, CapabilitiesAreReadOrThereAreNone) {
  EXPECT_TRUE(has_capability("Name:\tx\nCapEff:\t0000010000000000\n", 40));
  EXPECT_FALSE(has_capability("Name:\tx\nCapEff:\t000000ffffffffff\n", 40));
  for (const char* const bad : {"", "\nCapEff:\t", "\nCapEff:\tzz"})
    EXPECT_FALSE(has_capability(bad, 40)) << bad;
}

class FakeCriu : public snapshot::StoreTest {
 protected:
  std::vector<ImageNeed> probed(const std::string& script) const {
    const std::filesystem::path path = dir_ / "criu";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms(0700));
    return probe_process_images({path.string(), std::chrono::milliseconds(2000)});
  }
};

TEST_F(FakeCriu, IsJudgedByWhatItSays) {
  auto needs = probed("echo 'Version: 4.2.1'\n");
  ASSERT_EQ(needs.size(), 4U);
  EXPECT_TRUE(needs[0].is_met && needs[1].is_met);
  EXPECT_EQ(needs[0].found, "4.2");
  needs = probed("echo 'Version: 3.17.1'\necho 'Looks\033 bad.' >&2\nexit 1\n");
  EXPECT_FALSE(needs[0].is_met || needs[1].is_met);
  EXPECT_EQ(needs[0].found, "3.17");
  EXPECT_EQ(needs[1].found, "Looks? bad.");
  needs = probed("echo something\nkill -9 $$\n");
  EXPECT_THAT(needs[0].found, HasSubstr("ended by a signal"));
  needs = probed("yes\n");
  EXPECT_THAT(needs[0].found, HasSubstr("said too much"));
  needs = probed("exec sleep 100\n");
  EXPECT_THAT(needs[1].found, HasSubstr("did not end in time"));
  needs = probe_process_images({(dir_ / "nothing").string(), std::chrono::milliseconds(2000)});
  EXPECT_EQ(needs[0].found, "none");
  EXPECT_FALSE(needs[0].is_met || needs[1].is_met);
}

}  // namespace
}  // namespace stoker
