#include "chat/calls.h"

#include <string>
#include <string_view>
#include <utility>

#include "chat/python_json.h"

namespace stoker::chat {
namespace {

void write_tag(Writer& out, std::string_view opening, std::string_view rest) {
  out.text(opening);
  out.control(Control::kDsml);
  out.text(rest);
}

void write_parameter(Writer& out, std::string_view key, bool is_string, std::string_view value) {
  write_tag(out, "<", " parameter name=\"");
  out.text(key);
  out.text(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
  out.text(value);
  write_tag(out, "</", " parameter>");
}

// The object that the text is JSON of, or null.
Json object_of(std::string_view text) {
  auto parsed = Json::parse(text);
  if (!parsed.has_value()) return {};
  // Some clients encode twice.
  if (parsed->is_string()) parsed = Json::parse(std::string(parsed->as_string()));
  return parsed.has_value() && parsed->is_object() ? *std::move(parsed) : Json();
}

void write_arguments(Writer& out, const std::string& arguments) {
  const Json object = object_of(arguments);
  if (!object.is_object()) {
    write_parameter(out, "arguments", true, arguments);
    return;
  }
  std::string value;
  bool is_first = true;
  for (const auto& [key, member] : object.members()) {
    if (!std::exchange(is_first, false)) out.text("\n");
    if (member.is_string()) {
      write_parameter(out, key, true, member.as_string());
      continue;
    }
    value.clear();
    append_python_json(value, member);
    write_parameter(out, key, false, value);
  }
}

}  // namespace

void write_calls_opening(Writer& out) {
  write_tag(out, "\n\n<", " calls>\n");
}

void write_calls(Writer& out, const std::vector<ToolCall>& calls) {
  write_calls_opening(out);
  for (const ToolCall& call : calls) {
    write_tag(out, "<", " invoke name=\"");
    out.text(call.name);
    out.text("\">\n");
    write_arguments(out, call.arguments);
    write_tag(out, "\n</", " invoke>\n");
  }
  write_tag(out, "</", " calls>");
}

}  // namespace stoker::chat
