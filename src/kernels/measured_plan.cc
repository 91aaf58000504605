#include "kernels/measured_plan.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/try.h"

namespace stoker::kernels {
namespace {

// Also of the set of levels and of what is measured: a change of them is another version.
constexpr std::string_view kVersion = "1";
constexpr std::array<std::string_view, 4> kFormatNames = {"bf16", "f32", "fp8", "fp4"};
constexpr size_t kNumProducts = 4 * kNumRowClasses;
constexpr int64_t kMaxNs = 1'000'000'000'000;

Error damaged(const std::string& what) {
  return {ErrorCode::kCorruptData, "plan: " + what, ""};
}

// "fp4.16", "rest"
std::string key_of(size_t item_idx) {
  const PlanItem item = plan_item(item_idx);
  std::string key(item.operation);
  return item.rows == 0 ? key : key + "." + std::to_string(item.rows);
}

const Kernels*& place_of(KernelPlan& plan, size_t item_idx) {
  if (item_idx == kNumProducts) return plan.index_scores;
  if (item_idx > kNumProducts) return plan.rest;
  return plan.products[item_idx / kNumRowClasses][item_idx % kNumRowClasses];
}

// The text up to `end`, which is taken off too; all of it where there is none.
std::string_view take_until(std::string_view& rest, char end) {
  const size_t size = std::min(rest.find(end), rest.size());
  const std::string_view part = rest.substr(0, size);
  rest.remove_prefix(std::min(rest.size(), size + 1));
  return part;
}

Result<Isa> level_of(std::string_view name, const std::string& key) {
  const std::optional<Isa> isa = isa_of(name);
  if (isa) return *isa;
  return damaged(key + ": expected a level, found '" + std::string(name.substr(0, 32)) + "'");
}

// "avx512 avx2:52012 avx512:31000"
Result<MeasuredLevel> level_of_line(std::string_view value, const std::string& key) {
  MeasuredLevel level;
  TRY_ASSIGN(level.chosen, level_of(take_until(value, ' '), key));
  while (!value.empty()) {
    std::string_view digits = take_until(value, ' ');
    TRY_ASSIGN(const Isa isa, level_of(take_until(digits, ':'), key));
    int64_t ns = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ns);
    if (error != std::errc() || end != digits.data() + digits.size() || ns < 1 || ns > kMaxNs)
      return damaged(key + ": expected nanoseconds from 1 to " + std::to_string(kMaxNs));
    level.ns[static_cast<size_t>(isa)] = ns;
  }
  return level;
}

}  // namespace

PlanItem plan_item(size_t item_idx) {
  if (item_idx == kNumProducts) return {"index_scores"};
  if (item_idx > kNumProducts) return {"rest"};
  const size_t format = item_idx / kNumRowClasses;
  return {kFormatNames[format],
          static_cast<WeightFormat>(static_cast<size_t>(WeightFormat::kBf16Panel) + format),
          int64_t{1} << item_idx % kNumRowClasses};
}

MeasuredPlan unmeasured(const KernelPlan& plan) {
  KernelPlan copy = plan;
  MeasuredPlan out;
  for (size_t i = 0; i < out.size(); ++i) out[i].chosen = place_of(copy, i)->isa;
  return out;
}

Result<KernelPlan> kernel_plan_of(const MeasuredPlan& measured) {
  const std::vector<Isa> usable = usable_levels();
  KernelPlan plan;
  for (size_t i = 0; i < measured.size(); ++i) {
    const Isa isa = measured[i].chosen;
    if (std::ranges::find(usable, isa) == usable.end()) {
      return Error{ErrorCode::kUnsupported,
                   "plan: " + key_of(i) + ": expected a level of this processor, found " +
                       std::string(isa_name(isa)),
                   ""};
    }
    place_of(plan, i) = &kernels_of(isa);
  }
  return plan;
}

std::string plan_text(const MeasuredPlan& measured) {
  std::string text = "format=" + std::string(kVersion) + "\n";
  for (size_t i = 0; i < measured.size(); ++i) {
    text += key_of(i) + "=" + std::string(isa_name(measured[i].chosen));
    for (size_t level = 0; level < kNumLevels; ++level) {
      const int64_t ns = std::min(measured[i].ns[level], kMaxNs);
      if (ns == 0) continue;
      text += " " + std::string(isa_name(static_cast<Isa>(level))) + ":" + std::to_string(ns);
    }
    text += "\n";
  }
  return text;
}

Result<MeasuredPlan> parse_plan(std::string_view text) {
  if (text.size() > kMaxPlanTextBytes) {
    return damaged("expected at most " + std::to_string(kMaxPlanTextBytes) + " bytes, found " +
                   std::to_string(text.size()));
  }
  std::string_view rest = text;
  std::string_view first = take_until(rest, '\n');
  if (take_until(first, '=') != "format") return damaged("expected a line format=...");
  if (first != kVersion) {
    return Error{ErrorCode::kUnsupported,
                 "plan: expected format " + std::string(kVersion) + ", found another version",
                 "format"};
  }
  MeasuredPlan plan;
  for (size_t i = 0; i < plan.size(); ++i) {
    const std::string key = key_of(i);
    std::string_view line = take_until(rest, '\n');
    if (take_until(line, '=') != key) return damaged("expected a line " + key + "=...");
    TRY_ASSIGN(plan[i], level_of_line(line, key));
  }
  if (plan_text(plan) != text)
    return damaged("expected levels in their order, once, and nothing else");
  return plan;
}

}  // namespace stoker::kernels
