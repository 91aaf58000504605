// Against the released tokenizer.json, which tools/fetch_real_tokenizer.py puts into build/real;
// the environment variable STOKER_REAL_TOKENIZER names another place. Without it these tests are
// skipped. tests/data/tokenizer/golden_real.json holds the ids of an independent implementation.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tokenizer/test_support.h"

namespace stoker {
namespace {

using Added = Tokenizer::AddedTokens;
using Ids = std::vector<int32_t>;

// Generous: 0.1 s in a Release build.
constexpr std::chrono::seconds kMegabyteLimit(60);

std::string real_path() {
  const char* path = std::getenv("STOKER_REAL_TOKENIZER");
  return path != nullptr ? path : STOKER_SOURCE_DIR "/build/real/tokenizer.json";
}

class RealTokenizer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(real_path())) return;
    const auto text = read_file(real_path(), testing::kMaxFileBytes);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    tokenizer_ = new Tokenizer(testing::parse_or_die(*text));
  }

  static void TearDownTestSuite() {
    delete tokenizer_;
    tokenizer_ = nullptr;
  }

  void SetUp() override {
    if (tokenizer_ != nullptr) return;
    std::fprintf(stderr, "SKIP: no released tokenizer at %s\n", real_path().c_str());
    GTEST_SKIP() << "no released tokenizer at " << real_path()
                 << "; tools/fetch_real_tokenizer.py makes it";
  }

  static const Tokenizer& tokenizer() { return *tokenizer_; }

 private:
  static Tokenizer* tokenizer_;
};

Tokenizer* RealTokenizer::tokenizer_ = nullptr;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST_F(RealTokenizer, HasTheReleasedIds) {
  EXPECT_EQ(tokenizer().size(), 129280);
  EXPECT_EQ(tokenizer().added_token("<｜begin▁of▁sentence｜>"), 0);
  EXPECT_EQ(tokenizer().added_token("<｜System｜>"), 128799);
  EXPECT_EQ(tokenizer().added_token("<think>"), 128821);
  EXPECT_EQ(tokenizer().added_token("｜DSML｜"), 128825);
  EXPECT_EQ(tokenizer().added_token("<｜deepseek_image｜>"), 129264);
  EXPECT_EQ(tokenizer().added_token("<|place_holder_mm_span_0020|>"), std::nullopt);
  int num_special = 0;
  for (int32_t id = 0; id < tokenizer().size(); ++id)
    num_special += tokenizer().is_special(id) ? 1 : 0;
  EXPECT_EQ(num_special, 1229);
}

TEST_F(RealTokenizer, EncodesTheGoldenTexts) {
  const Json golden = testing::read_source_json("tests/data/tokenizer/golden_real.json");
  ASSERT_EQ(golden.find("encode")->items().size(), 451U);
  for (const Json& item : golden.find("encode")->items()) {
    const std::string& text = item.find("text")->as_string();
    const Ids ids = testing::ids_of(*item.find("ids"));
    const Json* plain = item.find("ids_plain");
    const Json* without_special = item.find("decoded_without_special");
    EXPECT_EQ(tokenizer().encode(text, Added::kMatch), ids) << text;
    EXPECT_EQ(tokenizer().encode(text, Added::kIgnore),
              plain != nullptr ? testing::ids_of(*plain) : ids)
        << text;
    EXPECT_EQ(tokenizer().decode(ids, false), text);
    EXPECT_EQ(tokenizer().decode(ids, true),
              without_special != nullptr ? without_special->as_string() : text);
  }
}

TEST_F(RealTokenizer, RepairsTheGoldenIllFormedTexts) {
  const Json golden = testing::read_source_json("tests/data/tokenizer/golden_real.json");
  ASSERT_EQ(golden.find("invalid_utf8")->items().size(), 26U);
  for (const Json& item : golden.find("invalid_utf8")->items()) {
    const std::string& hex = item.find("hex")->as_string();
    const Ids ids = testing::ids_of(*item.find("ids"));
    EXPECT_EQ(tokenizer().encode(from_hex(hex), Added::kMatch), ids) << hex;
    EXPECT_EQ(tokenizer().decode(ids, false), item.find("text")->as_string()) << hex;
  }
}

TEST_F(RealTokenizer, DecodesTheGoldenIds) {
  const Json golden = testing::read_source_json("tests/data/tokenizer/golden_real.json");
  ASSERT_EQ(golden.find("decode")->items().size(), 97U);
  for (const Json& item : golden.find("decode")->items()) {
    const Ids ids = testing::ids_of(*item.find("ids"));
    std::string bytes;
    std::string streamed;
    Detokenizer stream(tokenizer(), false);
    for (const int32_t id : ids) {
      bytes += tokenizer().bytes(id);
      streamed += stream.push(id);
    }
    streamed += stream.finish();
    EXPECT_EQ(bytes, from_hex(item.find("bytes_hex")->as_string()));
    EXPECT_EQ(tokenizer().decode(ids, false), item.find("text")->as_string());
    EXPECT_EQ(tokenizer().decode(ids, true), item.find("text_without_special")->as_string());
    EXPECT_EQ(streamed, item.find("text")->as_string());
  }
}

TEST_F(RealTokenizer, EncodesTheVectors) {
  const struct {
    std::string text;
    Ids ids;
  } cases[] = {
      {"Harbour lights at dusk", {42, 4336, 551, 17807, 509, 97544}},
      {"  leading", {223, 6646}},
      {"trail   ", {19660, 321, 361}},
      {"\n\n\n", {6328}},
      {"a\r\nb", {67, 204, 201, 68}},
      {"\t\tif (x) {\n", {200, 5733, 343, 90, 11, 875}},
      {"x = 42", {90, 438, 223, 3180}},
      {"7 8", {25, 223, 26}},
      {"12345", {6895, 1883}},
      {"3.50 kg", {21, 16, 1328, 4711}},
      {"v10.2.1-rc3", {88, 553, 16, 20, 16, 19, 15, 6921, 21}},
      {"a  9", {67, 262, 27}},
      {"a  中", {67, 262, 525}},
      {"它在2026年发布", {40341, 939, 24, 695, 7582}},
      {"カタカナ・テスト", {15961, 11767, 15961, 27071, 4825, 109288}},
      {"ｶﾅ", {5879, 117, 55241, 230}},
      {"한글 시험", {5634, 67011, 16940, 42796}},
      {"𠮷野家", {175, 257, 109, 118, 6230, 817}},
      {"々", {32286}},
      {"Ünïcode façade", {52526, 80, 16709, 8308, 112054}},
      {"Ελλάδα", {40435, 76254, 44822}},
      {"שלום", {8793, 2328, 16467}},
      {"ภาษาไทย", {100663, 39311}},
      {"नमस्ते", {9094, 12524, 70223, 6011}},
      {"e\u0301"
       "clair",
       {71, 17793, 58082}},
      {"🦑", {3574, 102, 242}},
      {"👩\u200d"
       "🚀",
       {25730, 105, 46088, 74287, 225}},
      {"don't", {20385, 1664}},
      {"O'Neil's", {49, 9, 77248, 734}},
      {"::std", {2366, 8017}},
      {"->next", {2105, 6695}},
      {"f(x)", {72, 4042, 11}},
      {"{\"k\": [1, 2]}", {24313, 77, 3362, 764, 19, 14, 223, 20, 48663}},
      {"// note\n\n", {835, 7155, 271}},
      {"...\n", {7835}},
      {"¿Qué?", {33957, 54570, 33}},
      {"€9", {19659, 27}},
      {"½ cup", {23951, 9778}},
      {"\u2003"
       "wide",
       {77469, 10285}},
      {"\u200b"
       "zw",
       {35020, 19830}},
      {"\u00a0"
       "nbsp",
       {2162, 28706}},
      {"\ufeff"
       "x",
       {15251, 90}},
      {std::string(1, '\0'), {191}},
      {"https://a.b/c?d=e", {5395, 2272, 67, 6229, 5252, 33, 70, 91343}},
      {"    return 0;\n", {361, 1354, 223, 18, 510}},
      {"<tool_result>ok</tool_result>", {30, 72461, 46148, 32, 633, 1718, 72461, 46148, 32}},
      {"</think", {1718, 37947}},
      {"x<think>y", {90, 128821, 91}},
      {"<｜User｜>q<｜Assistant｜></think>", {128803, 83, 128804, 128822}},
      {"<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
       {30, 128825, 10699, 1018, 30, 128825, 34756, 2329, 1281, 72, 3816, 1718, 128825, 34756, 1018,
        1718, 128825, 10699, 32}},
  };
  for (const auto& c : cases) EXPECT_EQ(tokenizer().encode(c.text, Added::kMatch), c.ids) << c.text;
}

TEST_F(RealTokenizer, EveryEntryThatIsTextEncodesToItself) {
  for (int32_t id = 0; id < tokenizer().size(); ++id) {
    const std::string_view bytes = tokenizer().bytes(id);
    if (!is_valid_utf8(bytes)) continue;
    EXPECT_EQ(tokenizer().encode(bytes, Added::kMatch), Ids{id});
  }
}

TEST_F(RealTokenizer, StreamsCharactersAsTheyComplete) {
  const struct {
    Ids ids;
    std::vector<std::string> pushed;
  } cases[] = {
      {{3574, 102, 242}, {"", "", "🦑"}},
      {{175, 257, 109, 118}, {"", "", "", "𠮷"}},
      {{25730, 105, 46088, 74287, 225}, {"", "👩", "\u200d", "", "🚀"}},
  };
  for (const auto& c : cases) {
    Detokenizer stream(tokenizer(), true);
    std::vector<std::string> pushed;
    for (const int32_t id : c.ids) pushed.push_back(stream.push(id));
    EXPECT_EQ(pushed, c.pushed);
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST_F(RealTokenizer, EngramMapIsTheReleasedOne) {
  const EngramMap map = engram_map(tokenizer());
  EXPECT_EQ(map.num_classes, 99092);
  EXPECT_EQ(map.class_of[0], 0);
  EXPECT_EQ(map.class_of[2], 2);
  EXPECT_EQ(map.class_of[3], 3);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(map.class_of.data()),
         map.class_of.size() * sizeof(int32_t), digest);
  EXPECT_EQ(std::string(std::begin(digest), std::end(digest)),
            from_hex("c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481"));
}

TEST_F(RealTokenizer, AMegabyteIsQuick) {
  std::mt19937 random(6);
  std::string mixed;
  while (mixed.size() < 1 << 20) mixed += testing::random_text(random, 1000);
  for (const std::string& text : {mixed, std::string(1 << 20, 'a'), std::string(1 << 20, ' ')}) {
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = tokenizer().encode(text, Added::kMatch);
    const auto taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken, kMegabyteLimit);
    RecordProperty(
        "milliseconds",
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(taken).count()));
    EXPECT_EQ(tokenizer().decode(ids, false), text);
  }
}

}  // namespace
}  // namespace stoker
