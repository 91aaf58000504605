#include "snapshot/manifest.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "base/utf8.h"
#include "snapshot/text_lines.h"

namespace stoker::snapshot {
namespace {

constexpr std::string_view kManifestFormat = "1";
constexpr std::string_view kFlagStart = "config.";
constexpr std::string_view kHexLetters = "0123456789abcdef";

Error not_allowed(const std::string& field, const std::string& what) {
  return {ErrorCode::kInvalidArgument, field + ": expected " + what, field};
}

bool is_flag_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

Result<void> check_value(const std::string& field, std::string_view value) {
  const bool has_controls = std::ranges::any_of(
      value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (value.size() <= kMaxManifestValueBytes && !has_controls && is_valid_utf8(value)) return {};
  return not_allowed(field, "at most " + std::to_string(kMaxManifestValueBytes) +
                                " bytes of UTF-8 without control characters");
}

Result<void> check_values(const Manifest& m) {
  const std::pair<const char*, const std::string*> values[] = {
      {"created", &m.created},           {"tool", &m.tool},
      {"engine.build", &m.engine_build}, {"engine.numeric", &m.engine_numeric},
      {"model.name", &m.model_name},     {"host.isa", &m.host_isa},
      {"host.cpu", &m.host_cpu}};
  for (const auto& [field, value] : values) {
    if (auto checked = check_value(field, *value); !checked) return checked;
  }
  for (const ManifestFlag& flag : m.flags) {
    if (!is_flag_name(flag.name)) return not_allowed("config", "names of a-z, 0-9 and '_'");
    if (auto checked = check_value("config." + flag.name, flag.value); !checked) return checked;
  }
  return {};
}

Result<void> check_counts(const Manifest& m) {
  const std::pair<const char*, int64_t> numbers[] = {{"engine.layout", m.engine_layout},
                                                     {"host.cores", m.host_cores},
                                                     {"host.numa", m.host_numa},
                                                     {"host.page", m.host_page},
                                                     {"topology.ranks", m.ranks}};
  for (const auto& [field, number] : numbers) {
    if (number < 1 || number > INT32_MAX) return not_allowed(field, "1 to 2147483647");
  }
  if (m.flags.size() > kMaxFlags)
    return not_allowed("config", "at most " + std::to_string(kMaxFlags) + " flags");
  if (m.sections.empty() || m.sections.size() > kMaxSections)
    return not_allowed("section", "1 to " + std::to_string(kMaxSections) + " sections");
  if (!m.sha256.empty() && m.sha256.size() != m.sections.size())
    return not_allowed("sha256", "a digest for each section, or none");
  return {};
}

template <class T, class NameOf>
bool ascends(const std::vector<T>& all, const NameOf& name_of) {
  return std::ranges::adjacent_find(
             all, [&](const T& a, const T& b) { return name_of(a) >= name_of(b); }) == all.end();
}

std::string hex_of(const Sha256& digest) {
  std::string text;
  for (const uint8_t byte : digest) {
    text += kHexLetters[byte >> 4];
    text += kHexLetters[byte & 15];
  }
  return text;
}

Result<Sha256> parse_sha256(std::string_view text) {
  Sha256 digest;
  if (text.size() != 2 * digest.size())
    return damaged_text("sha256: expected 64 hexadecimal digits");
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t value = kHexLetters.find(text[i]);
    if (value == std::string_view::npos)
      return damaged_text("sha256: expected 64 hexadecimal digits");
    digest[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? value << 4 : digest[i / 2] | value);
  }
  return digest;
}

std::string section_line(const Section& section) {
  return "section=" + section.kind + " " + section.object() + " " + std::to_string(section.bytes) +
         " " + std::to_string(kChunkBytes) + " " + section.table_digest.hex() + " " +
         section.key.hex() + "\n";
}

// What the id is a digest of.
std::string body_text(const Manifest& m) {
  std::string text;
  const auto add = [&text](std::string_view name, std::string_view value) {
    text += std::string(name) + "=" + std::string(value) + "\n";
  };
  add("engine.build", m.engine_build);
  add("engine.layout", std::to_string(m.engine_layout));
  add("engine.numeric", m.engine_numeric);
  add("model.name", m.model_name);
  add("model.fingerprint", m.model_fingerprint.hex());
  add("model.digest", m.model_digest.hex());
  for (const ManifestFlag& flag : m.flags) add(std::string(kFlagStart) + flag.name, flag.value);
  add("host.isa", m.host_isa);
  add("host.cpu", m.host_cpu);
  add("host.cores", std::to_string(m.host_cores));
  add("host.numa", std::to_string(m.host_numa));
  add("host.page", std::to_string(m.host_page));
  add("topology.ranks", std::to_string(m.ranks));
  for (const Section& section : m.sections) text += section_line(section);
  for (const Sha256& digest : m.sha256) add("sha256", hex_of(digest));
  return text;
}

// The next word of a line; takes it off.
std::string_view next_word(std::string_view& rest) {
  const size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return word;
}

Result<Digest> parse_digest(std::string_view text, const std::string& name) {
  const auto digest = Digest::from_hex(text);
  if (!digest) return damaged_text(name + ": expected 32 hexadecimal digits");
  return *digest;
}

// The kind stands in front of the line again, as the name of the section.
Result<Section> parse_section(std::string_view line) {
  Section section;
  const std::string_view name = next_word(line);
  if (auto read = parse_object_name(next_word(line), section); !read)
    return std::move(read).error();
  if (section.kind != name) return damaged_text("section: expected the kind of its object");
  TRY_ASSIGN(section.bytes, parse_number(next_word(line), "section: bytes"));
  TRY_ASSIGN(const int64_t chunk_bytes, parse_number(next_word(line), "section: chunk bytes"));
  if (chunk_bytes != kChunkBytes) return damaged_text("section: expected chunks of 4194304 bytes");
  TRY_ASSIGN(section.table_digest, parse_digest(next_word(line), "section: table"));
  TRY_ASSIGN(section.key, parse_digest(next_word(line), "section: key"));
  if (auto checked = check_section(section); !checked) return damaged_text(checked.error().message);
  return section;
}

Result<void> read_lists(LineReader& lines, Manifest& m) {
  while (lines.next_starts_with("section=")) {
    if (m.sections.size() == kMaxSections) return damaged_text("section: too many");
    TRY_ASSIGN(const std::string_view line, lines.value("section"));
    TRY_ASSIGN(Section section, parse_section(line));
    m.sections.push_back(std::move(section));
  }
  while (lines.next_starts_with("sha256=")) {
    if (m.sha256.size() == m.sections.size()) return damaged_text("sha256: too many");
    TRY_ASSIGN(const std::string_view text, lines.value("sha256"));
    TRY_ASSIGN(const Sha256 digest, parse_sha256(text));
    m.sha256.push_back(digest);
  }
  return {};
}

Result<void> read_flags(LineReader& lines, Manifest& m) {
  while (lines.next_starts_with(kFlagStart)) {
    if (m.flags.size() == kMaxFlags) return damaged_text("config: too many flags");
    TRY_ASSIGN(const std::string_view name, lines.next_name());
    TRY_ASSIGN(const std::string_view value, lines.value(name));
    m.flags.push_back({std::string(name.substr(kFlagStart.size())), std::string(value)});
  }
  return {};
}

Result<Manifest> parse_lines(LineReader lines, Digest* id) {
  TRY_ASSIGN(const std::string_view format, lines.value("format"));
  if (format != kManifestFormat) {
    return Error{ErrorCode::kUnsupported, "expected format 1, found another version", "format"};
  }
  Manifest m;
  TRY_ASSIGN(*id, lines.digest("id"));
  TRY_ASSIGN(m.created, lines.value("created"));
  TRY_ASSIGN(m.tool, lines.value("tool"));
  TRY_ASSIGN(m.engine_build, lines.value("engine.build"));
  TRY_ASSIGN(m.engine_layout, lines.number("engine.layout"));
  TRY_ASSIGN(m.engine_numeric, lines.value("engine.numeric"));
  TRY_ASSIGN(m.model_name, lines.value("model.name"));
  TRY_ASSIGN(m.model_fingerprint, lines.digest("model.fingerprint"));
  TRY_ASSIGN(m.model_digest, lines.digest("model.digest"));
  if (auto read = read_flags(lines, m); !read) return std::move(read).error();
  TRY_ASSIGN(m.host_isa, lines.value("host.isa"));
  TRY_ASSIGN(m.host_cpu, lines.value("host.cpu"));
  TRY_ASSIGN(m.host_cores, lines.number("host.cores"));
  TRY_ASSIGN(m.host_numa, lines.number("host.numa"));
  TRY_ASSIGN(m.host_page, lines.number("host.page"));
  TRY_ASSIGN(m.ranks, lines.number("topology.ranks"));
  if (auto read = read_lists(lines, m); !read) return std::move(read).error();
  return m;
}

}  // namespace

const Section* Manifest::find(std::string_view kind) const {
  const auto found = std::ranges::find(sections, kind, &Section::kind);
  return found != sections.end() ? &*found : nullptr;
}

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const Section& section : sections) sum += section.bytes;
  return sum;
}

Digest Manifest::id() const {
  return digest_of(body_text(*this));
}

Result<void> check_manifest(const Manifest& manifest) {
  if (auto checked = check_counts(manifest); !checked) return checked;
  if (auto checked = check_values(manifest); !checked) return checked;
  for (const Section& section : manifest.sections) {
    if (auto checked = check_section(section); !checked) return checked;
  }
  const auto flag_name = [](const ManifestFlag& flag) { return flag.name; };
  const auto kind = [](const Section& section) { return section.kind; };
  if (!ascends(manifest.flags, flag_name)) return not_allowed("config", "ascending names");
  if (!ascends(manifest.sections, kind)) return not_allowed("section", "ascending kinds");
  return {};
}

Result<void> check_can_travel(const Section& section) {
  if (section.kind != kPrivateKind) return {};
  return Error{ErrorCode::kUnsupported,
               "expected a snapshot without cached prefixes, which hold what users wrote and stay "
               "on their host; found a section " +
                   section.kind + ": make one without them",
               ""};
}

Result<void> check_can_travel(const Manifest& manifest) {
  for (const Section& section : manifest.sections) {
    if (auto checked = check_can_travel(section); !checked) return checked;
  }
  return {};
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = "format=" + std::string(kManifestFormat);
  text += "\nid=" + manifest.id().hex();
  text += "\ncreated=" + manifest.created;
  text += "\ntool=" + manifest.tool + "\n";
  return ended_text(text + body_text(manifest));
}

Result<Manifest> parse_manifest(std::string_view text) {
  TRY_ASSIGN(const std::string_view body, believed_lines(text, kMaxManifestBytes));
  Digest id;
  TRY_ASSIGN(Manifest manifest, parse_lines(LineReader(body), &id));
  if (auto checked = check_manifest(manifest); !checked)
    return damaged_text(checked.error().message);
  if (manifest.id() != id) return damaged_text("id: expected " + manifest.id().hex());
  if (manifest_text(manifest) != text) return damaged_text("expected the canonical form");
  return manifest;
}

}  // namespace stoker::snapshot
