// The compiled form against the oracle: for random grammars, after every token, each bit of the
// mask is what reading the bytes one by one says.
#include "grammar/matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "grammar/oracle.h"
#include "grammar/regular.h"
#include "grammar/test_support.h"

namespace stoker::grammar {
namespace {

using testing::compile_or_die;
using testing::has_bit;
using testing::kEnd;
using testing::kSpecial;
using testing::matches;
using testing::Oracle;
using testing::small_vocabulary;

constexpr size_t kMaxReadings = 12;  // of the oracle, which takes too long with more

// By reference: its other argument comes from the builder, too.
Grammar finish(GrammarBuilder&& builder, NodeId root) {
  auto grammar = std::move(builder).finish(root);
  EXPECT_TRUE(grammar.has_value());
  return *std::move(grammar);
}

// Random expressions over few letters, so that alternatives collide. A rule is referred to behind a
// byte only.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {}

  Grammar make() {
    const size_t count = 1 + random_() % 4;
    for (size_t i = 0; i < count; ++i) rules_.push_back(builder_.declare("r", random_() % 2 == 0));
    for (const RuleId rule : rules_) {
      // One alternative without a rule, so that each can be completed.
      const NodeId leaf = builder_.literal(random_() % 3 == 0 ? "" : "a");
      builder_.define(rule, builder_.choice({leaf, expression(4), expression(3)}));
    }
    return finish(std::move(builder_), builder_.sequence({expression(3), expression(3)}));
  }

 private:
  NodeId leaf() {
    static const char* const kTexts[] = {"a", "b", "ab", "\"", "日", "é", "aa", "x", "{", "<"};
    switch (random_() % 8) {
      case 0:
        return builder_.bytes(byte_range('a', 'c'));
      case 1:
        return builder_.multibyte();
      case 2:
        return builder_.code_points(0x20, 0x2FFFF);
      case 3:
        return builder_.text_without("</x");
      case 4:
        return builder_.repeat(plain_char(), random_() % 3, 3 + random_() % 4);
      default:
        return builder_.literal(kTexts[random_() % 10]);
    }
  }

  NodeId plain_char() {
    ByteSet plain = byte_range(0x20, 0x7E);
    plain.reset('"').reset('\\');
    return builder_.choice({builder_.bytes(plain), builder_.multibyte()});
  }

  NodeId expression(int depth) {
    if (depth == 0) return leaf();
    switch (random_() % 7) {
      case 0:
        return leaf();
      case 1:
        return builder_.choice({expression(depth - 1), expression(depth - 1)});
      case 2: {
        const uint32_t min = random_() % 3;
        const uint32_t max = random_() % 3 == 0 ? kUnbounded : min + random_() % 3;
        return builder_.repeat(expression(depth - 1), min, max);
      }
      case 3:
      case 4:
        return builder_.sequence({builder_.bytes(byte_range('a', 'b')),
                                  builder_.rule(rules_[random_() % rules_.size()]),
                                  expression(depth - 1)});
      case 5:
        return builder_.sequence(
            {builder_.literal("x"), builder_.rule(rules_[random_() % rules_.size()])});
      default:
        return builder_.sequence({expression(depth - 1), expression(depth - 1)});
    }
  }

  std::mt19937 random_;
  GrammarBuilder builder_;
  std::vector<RuleId> rules_;
};

// Follows one random text of at most `num_tokens` and compares every mask. Returns how many.
int compare_one_text(const Grammar& grammar, const std::shared_ptr<const Program>& program,
                     std::mt19937& random, int num_tokens) {
  const Vocabulary& vocabulary = program->vocabulary();
  Matcher matcher(program);
  Oracle oracle(grammar);
  std::vector<uint64_t> mask(vocabulary.num_words());
  int compared = 0;
  for (; compared < num_tokens && oracle.num_readings() <= kMaxReadings; ++compared) {
    EXPECT_TRUE(matcher.fill(mask));
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.size()); ++id) {
      const bool expected =
          id == kEnd ? oracle.ends()
                     : !vocabulary.bytes(id).empty() && oracle.allows(vocabulary.bytes(id));
      EXPECT_EQ(has_bit(mask, id), expected) << "id " << id << " " << vocabulary.bytes(id);
      if (has_bit(mask, id) != expected) return compared;
      if (expected && id != kEnd) allowed.push_back(id);
    }
    EXPECT_EQ(matcher.can_end(), oracle.ends());
    EXPECT_FALSE(matcher.accept(kSpecial));
    if (allowed.empty()) break;
    const int32_t id = allowed[random() % allowed.size()];
    EXPECT_TRUE(matcher.accept(id));
    for (const char byte : vocabulary.bytes(id)) EXPECT_TRUE(oracle.push(byte));
  }
  return compared;
}

TEST(GrammarMatcher, MasksOfRandomGrammarsAreTheOracles) {
  const auto vocabulary = small_vocabulary();
  int compared = 0;
  const int first = testing::first_seed();
  for (int run = first; run < first + testing::num_runs(100); ++run) {
    SCOPED_TRACE("seed " + std::to_string(run));
    const Grammar grammar = RandomGrammar(static_cast<uint32_t>(run)).make();
    ProgramOptions options;
    if (run % 3 == 0) options.max_eager_work = 0;
    if (run % 5 == 0) options.max_mask_bytes = 100;
    const auto program = compile_or_die(grammar, vocabulary, options);
    std::mt19937 random(static_cast<uint32_t>(run));
    for (int text = 0; text < 3; ++text) compared += compare_one_text(grammar, program, random, 12);
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, testing::num_runs(100));
}

TEST(GrammarMatcher, FollowsBracketsToAnyDepth) {
  GrammarBuilder builder;
  const RuleId brackets = builder.declare("brackets");
  builder.define(brackets,
                 builder.repeat(builder.sequence({builder.literal("["), builder.rule(brackets),
                                                  builder.literal("]")}),
                                0));
  const Grammar grammar = finish(std::move(builder), builder.rule(brackets));
  EXPECT_TRUE(matches(grammar, ""));
  EXPECT_TRUE(matches(grammar, "[[]][]"));
  EXPECT_TRUE(matches(grammar, std::string(3000, '[') + std::string(3000, ']')));
  EXPECT_FALSE(matches(grammar, std::string(3000, '[') + std::string(2999, ']')));
  EXPECT_FALSE(matches(grammar, "[]]"));
}

TEST(GrammarMatcher, FollowsRulesThatBeginWithThemselves) {
  // sum = sum "+" term | term; term = "1" | "(" sum ")"
  GrammarBuilder builder;
  const RuleId sum = builder.declare("sum");
  const RuleId term = builder.declare("term");
  builder.define(sum, builder.choice({builder.sequence({builder.rule(sum), builder.literal("+"),
                                                        builder.rule(term)}),
                                      builder.rule(term)}));
  builder.define(term, builder.choice({builder.literal("1"),
                                       builder.sequence({builder.literal("("), builder.rule(sum),
                                                         builder.literal(")")})}));
  const Grammar grammar = finish(std::move(builder), builder.rule(sum));
  EXPECT_TRUE(matches(grammar, "1"));
  EXPECT_TRUE(matches(grammar, "1+(1+1)+1"));
  EXPECT_FALSE(matches(grammar, "1+"));
  EXPECT_FALSE(matches(grammar, "+1"));
  EXPECT_FALSE(matches(grammar, "(1+1"));
}

TEST(GrammarMatcher, SharesTheReadingsOfAnAmbiguousText) {
  // s = "a" | s s: a text of n letters has more than 2^n readings.
  GrammarBuilder builder;
  const RuleId s = builder.declare("s");
  builder.define(s, builder.choice({builder.literal("a"),
                                    builder.sequence({builder.rule(s), builder.rule(s)})}));
  const Grammar grammar = finish(std::move(builder), builder.rule(s));
  EXPECT_TRUE(matches(grammar, std::string(60, 'a')));
  EXPECT_FALSE(matches(grammar, ""));
}

TEST(GrammarMatcher, FailsByTheTextWhereReadingsAreTooMany) {
  GrammarBuilder builder;
  const RuleId s = builder.declare("s");
  builder.define(s, builder.choice({builder.literal("a"),
                                    builder.sequence({builder.rule(s), builder.rule(s)})}));
  Matcher matcher(compile_or_die(finish(std::move(builder), builder.rule(s))));
  int accepted = 0;
  while (accepted < 10000 && matcher.accept(3 + 'a')) ++accepted;
  EXPECT_TRUE(matcher.failed());
  EXPECT_GT(accepted, 50);
  EXPECT_FALSE(matcher.accept(3 + 'b'));
  EXPECT_FALSE(matcher.failed());
  EXPECT_TRUE(matcher.can_end());
}

TEST(GrammarMatcher, EndsOnceAndOnlyWhereTheTextIsComplete) {
  GrammarBuilder builder;
  const Grammar grammar = finish(std::move(builder), builder.literal("ab"));
  Matcher matcher(compile_or_die(grammar));
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.accept(3 + 'a'));
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.accept(3 + 'b'));
  std::vector<uint64_t> mask(mask_words(small_vocabulary()->size()) + 2, ~uint64_t{0});
  EXPECT_TRUE(matcher.fill(mask));
  EXPECT_EQ(mask[0], uint64_t{1} << kEnd);
  for (size_t i = 1; i < mask.size(); ++i) EXPECT_EQ(mask[i], 0U);
  EXPECT_TRUE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1 << 20));
  matcher.rollback(1);
  EXPECT_FALSE(matcher.ended());
  EXPECT_TRUE(matcher.can_end());
}

// A long random text with drafts that are taken back: the masks are those of a matcher that never
// saw a draft.
TEST(GrammarMatcher, RollsBackToTheSameMasks) {
  const auto vocabulary = small_vocabulary();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto program = compile_or_die(RandomGrammar(seed).make(), vocabulary);
    Matcher plain(program);
    Matcher drafting(program);
    std::mt19937 random(seed);
    std::vector<uint64_t> expected(vocabulary->num_words());
    std::vector<uint64_t> found(vocabulary->num_words());
    const auto step = [&](Matcher& matcher, const std::vector<uint64_t>& mask) {
      std::vector<int32_t> allowed;
      for (int32_t id = 1; id < static_cast<int32_t>(vocabulary->size()); ++id)
        if (has_bit(mask, id)) allowed.push_back(id);
      if (allowed.empty()) return -1;
      const int32_t id = allowed[random() % allowed.size()];
      EXPECT_TRUE(matcher.accept(id) || matcher.failed());
      return matcher.failed() ? -1 : id;
    };
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(plain.fill(expected));
      const size_t num_drafts = i % 50 == 49 ? Matcher::kMaxRollback : random() % 4;
      size_t drafted = 0;
      for (found = expected; drafted < num_drafts; ++drafted) {
        if (step(drafting, found) < 0) break;
        EXPECT_TRUE(drafting.fill(found));
      }
      drafting.rollback(drafted);
      EXPECT_TRUE(drafting.fill(found));
      ASSERT_EQ(found, expected) << "seed " << seed << " step " << i;
      const int32_t id = step(plain, expected);
      if (id < 0) break;
      ASSERT_TRUE(drafting.accept(id));
    }
    EXPECT_EQ(plain.num_tokens(), drafting.num_tokens());
  }
}

// Masks that are made when first needed, by several threads at a time, are those of one.
TEST(GrammarProgram, IsSharedByThreads) {
  const auto vocabulary = small_vocabulary();
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Grammar grammar = RandomGrammar(seed).make();
    ProgramOptions lazy;
    lazy.max_eager_work = 0;
    if (seed == 3) lazy.max_mask_bytes = 500;
    const auto answer = [&](const std::shared_ptr<const Program>& program) {
      Matcher matcher(program);
      std::mt19937 random(seed);
      std::vector<uint64_t> mask(vocabulary->num_words());
      std::vector<uint64_t> seen;
      for (int i = 0; i < 30; ++i) {
        EXPECT_TRUE(matcher.fill(mask));
        seen.insert(seen.end(), mask.begin(), mask.end());
        int32_t id = static_cast<int32_t>(random() % vocabulary->size());
        for (size_t tries = 0; !matcher.accept(id) && tries < vocabulary->size(); ++tries)
          id = static_cast<int32_t>((static_cast<size_t>(id) + 1) % vocabulary->size());
      }
      return seen;
    };
    const auto expected = answer(compile_or_die(grammar, vocabulary));
    const auto shared = compile_or_die(grammar, vocabulary, lazy);
    std::vector<std::vector<uint64_t>> found(4);
    std::vector<std::thread> threads;
    for (auto& one : found) threads.emplace_back([&] { one = answer(shared); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& one : found) EXPECT_EQ(one, expected) << "seed " << seed;
  }
}

TEST(GrammarProgram, RefusesWhatAllowsNothingAndWhatIsTooLarge) {
  GrammarBuilder nothing;
  const RuleId endless = nothing.declare("endless");
  nothing.define(endless, nothing.sequence({nothing.literal("a"), nothing.rule(endless)}));
  const NodeId root = nothing.rule(endless);
  auto program = Program::compile(finish(std::move(nothing), root), small_vocabulary());
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kInvalidArgument);

  // The last but 30th letter is an a: 2^30 states.
  GrammarBuilder wide;
  const NodeId letter = wide.bytes(byte_range('a', 'b'));
  const NodeId all =
      wide.sequence({wide.repeat(letter, 0), wide.literal("a"), wide.repeat(letter, 30, 30)});
  program = Program::compile(finish(std::move(wide), all), small_vocabulary());
  ASSERT_FALSE(program.has_value());
  EXPECT_NE(program.error().message.find("too large"), std::string::npos);

  GrammarBuilder deep;
  NodeId node = deep.literal("a");
  for (int i = 0; i < 6; ++i) node = deep.repeat(node, 100, 100);
  program = Program::compile(finish(std::move(deep), node), small_vocabulary());
  ASSERT_FALSE(program.has_value());
  EXPECT_NE(program.error().message.find("too large"), std::string::npos);
}

TEST(GrammarProgram, StatesFarFromTheEndOfAStringShareAMask) {
  GrammarBuilder builder;
  ByteSet plain = byte_range(0x20, 0x7E);
  plain.reset('"');
  const NodeId chars =
      builder.repeat(builder.choice({builder.bytes(plain), builder.multibyte()}), 0, 5000);
  const NodeId root = builder.sequence({builder.literal("\""), chars, builder.literal("\"")});
  const auto program = compile_or_die(finish(std::move(builder), root));
  EXPECT_GT(program->automaton().num_states(), 5000U);
  EXPECT_LT(program->num_masks(), 100U);
  EXPECT_EQ(program->num_masks(), program->num_masks_made());
}

TEST(GrammarRegular, TextWithoutAMarker) {
  const Regular text = regular_text_without("</｜x");
  EXPECT_TRUE(contains(text, ""));
  EXPECT_TRUE(contains(text, "a</｜y 日本 <</｜"));
  EXPECT_FALSE(contains(text, "a</｜xy"));
  EXPECT_FALSE(contains(text, "<</｜x"));
  EXPECT_FALSE(contains(text, "\xE6\x97"));
  EXPECT_FALSE(contains(text, "\xED\xA0\x80"));
  EXPECT_TRUE(contains(regular_text_without("aab"), "aaab") == false);
  EXPECT_TRUE(contains(regular_text_without("abab"), "abaabb"));
}

TEST(GrammarRegular, SetOperationsAreThose) {
  const Regular some = regular_of_strings({"a", "ab", "日", "\n"});
  const Regular two = *regular_length(2, 2);
  const auto both = intersection(some, two);
  ASSERT_TRUE(both.has_value());
  EXPECT_TRUE(contains(*both, "ab"));
  EXPECT_FALSE(contains(*both, "a"));
  const auto others = difference(regular_utf8(), some);
  ASSERT_TRUE(others.has_value());
  EXPECT_FALSE(contains(*others, "日"));
  EXPECT_TRUE(contains(*others, "日日"));
  EXPECT_TRUE(contains(*others, ""));
  EXPECT_TRUE(is_empty(*difference(some, some)));
  EXPECT_FALSE(is_empty(some));
  const Regular spelled = json_spelling(regular_of_strings({"a\n\"\\\x01\x1f/", "b"}));
  EXPECT_TRUE(contains(spelled, R"(a\n\"\\\u0001\u001F/)"));
  EXPECT_TRUE(contains(spelled, R"(a\n\"\\\u0001\u001f/)"));
  EXPECT_FALSE(contains(spelled, R"(a\n\"\\\u0001\u001f\/)"));
  EXPECT_FALSE(contains(spelled, "a\n\"\\"));
  EXPECT_TRUE(contains(spelled, "b"));
}

}  // namespace
}  // namespace stoker::grammar
