#include "tokenizer/byte_symbols.h"

#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace stoker {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr size_t kNumStandIns = 68;

bool stands_for_itself(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

struct Alphabet {
  std::array<char32_t, 256> symbol_of{};
  std::array<unsigned char, kFirstStandIn + kNumStandIns> byte_of{};

  Alphabet() {
    char32_t next = kFirstStandIn;
    for (size_t byte = 0; byte < 256; ++byte) {
      symbol_of[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
      byte_of[symbol_of[byte]] = static_cast<unsigned char>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::optional<std::string> bytes_of_symbols(std::string_view symbols) {
  std::string bytes;
  for (size_t at = 0; at < symbols.size();) {
    const CodePoint c = decode_utf8(symbols, at);
    const bool known =
        c.value < 256 ? stands_for_itself(c.value) : c.value < alphabet().byte_of.size();
    if (!known) return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet().byte_of[c.value]));
    at += c.length;
  }
  return bytes;
}

std::string symbols_of_bytes(std::string_view bytes) {
  std::string symbols;
  for (const char byte : bytes)
    append_utf8(symbols, alphabet().symbol_of[static_cast<unsigned char>(byte)]);
  return symbols;
}

}  // namespace stoker
