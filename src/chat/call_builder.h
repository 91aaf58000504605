// Assembles the deltas of calls: names, and arguments as JSON that only ever grows, so that what a
// client has of it is a beginning of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_delta.h"

namespace stoker::chat {

/// Called in the order of the markup. Input is UTF-8 in pieces of any size. One owner.
class CallBuilder {
 public:
  /// only_tool: calls of other names leave no trace.
  explicit CallBuilder(std::optional<std::string> only_tool) : only_tool_(std::move(only_tool)) {}

  void add_name(std::string_view text) { name_ += text; }
  void begin(std::vector<Delta>& out);  ///< the name is complete

  void begin_parameter(std::vector<Delta>& out);
  void add_key(std::string_view text, std::vector<Delta>& out) { add_escaped(text, out); }
  void end_key(std::vector<Delta>& out);

  void begin_text(std::vector<Delta>& out);
  void add_text(std::string_view text, std::vector<Delta>& out) { add_escaped(text, out); }
  void end_text(std::vector<Delta>& out);

  /// Other values are held back until they are known to be JSON; what is not becomes a string.
  void add_value(std::string_view text) { value_ += text; }
  void end_value(std::vector<Delta>& out);

  void end(std::vector<Delta>& out);

  bool has_parameters() const { return has_parameters_; }  ///< of the call that is open
  int32_t num_calls() const { return num_calls_; }         ///< complete ones

 private:
  void add(std::string_view json, std::vector<Delta>& out);
  void add_escaped(std::string_view text, std::vector<Delta>& out);

  std::optional<std::string> only_tool_;
  std::string name_;
  std::string value_;
  bool is_wanted_ = false;
  bool has_parameters_ = false;
  int32_t num_calls_ = 0;
};

}  // namespace stoker::chat
