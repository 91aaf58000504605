#include "checkpoint/safetensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "checkpoint/json_text.h"

namespace stoker {
namespace {

constexpr uint64_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxHeaderDepth = 4;
constexpr size_t kMaxDims = 8;
// Bounds what parsing allocates: a value of a real header takes about 7 bytes of text.
constexpr size_t kMinBytesPerValue = 4;
constexpr size_t kFreeValues = 64;

Error corrupt(const std::string& where, const std::string& expected, const std::string& what) {
  return {ErrorCode::kCorruptData, where + ": expected " + expected + ", found " + what, ""};
}

Result<std::string_view> header_text(Bytes file, const std::string& name) {
  if (file.size() < kPrefixBytes) {
    return corrupt(name, "a header length of 8 bytes", "a file of " + std::to_string(file.size()));
  }
  const auto length = load_le<uint64_t>(file.data());
  const uint64_t limit = std::min<uint64_t>(file.size() - kPrefixBytes, kMaxHeaderBytes);
  if (length > limit) {
    return corrupt(name, "a header of at most " + std::to_string(limit) + " bytes",
                   "a header length of " + std::to_string(length));
  }
  const auto* text = reinterpret_cast<const char*>(file.data() + kPrefixBytes);
  return std::string_view(text, static_cast<size_t>(length));
}

// What a header says of a tensor, and where its data begins.
struct Entry {
  NamedTensor tensor;  // without data
  int64_t begin = 0;
};

// Reads one entry of the header. `data_size` is that of all that follows the header.
class EntryReader {
 public:
  EntryReader(int64_t data_size, const std::string& file, const Json::Member& member)
      : data_size_(data_size),
        where_(file + ": " + shown(member.first)),
        name_(member.first),
        entry_(member.second) {}

  Result<Entry> read() const {
    if (!entry_.is_object() || entry_.members().size() != 3) {
      return corrupt(where_, "an object of dtype, shape and data_offsets", found(entry_));
    }
    NamedTensor tensor;
    tensor.name = name_;
    TRY_ASSIGN(tensor.view.dtype, dtype());
    TRY_ASSIGN(tensor.view.shape, integers("shape"));
    TRY_ASSIGN(const int64_t size, size_of(tensor.view));
    TRY_ASSIGN(const Shape offsets, integers("data_offsets"));
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size_) {
      return corrupt(
          where_,
          "data_offsets [begin, end] within the " + std::to_string(data_size_) + " bytes of data",
          to_string(offsets));
    }
    if (offsets[1] - offsets[0] != size) {
      return corrupt(where_,
                     std::to_string(size) + " bytes of data for " +
                         dtype_info(tensor.view.dtype).name + " " + to_string(tensor.view.shape),
                     "data_offsets " + to_string(offsets));
    }
    tensor.view.size_bytes = size;
    return Entry{std::move(tensor), offsets[0]};
  }

 private:
  Result<const Json*> member(const char* key) const {
    if (const Json* value = entry_.find(key)) return value;
    return corrupt(where_, std::string("the key ") + key, "none of that name");
  }

  Result<DType> dtype() const {
    TRY_ASSIGN(const Json* value, member("dtype"));
    const auto dtype = value->is_string() ? dtype_of(value->as_string()) : std::nullopt;
    if (dtype) return *dtype;
    return corrupt(where_, "a dtype of this engine (docs/formats.md)", found(*value));
  }

  // A short list of integers that are not negative.
  Result<Shape> integers(const char* key) const {
    TRY_ASSIGN(const Json* value, member(key));
    Shape numbers;
    bool good = value->is_array() && value->items().size() <= kMaxDims;
    for (const Json& item : value->items()) {
      const auto number = item.as_int();
      good = good && number && *number >= 0;
      if (good) numbers.push_back(*number);
    }
    if (good) return numbers;
    return corrupt(where_,
                   std::string(key) + " to be at most 8 integers from 0 to 9223372036854775807",
                   found(*value));
  }

  Result<int64_t> size_of(const TensorView& view) const {
    int64_t size = dtype_info(view.dtype).size_bytes;
    for (const int64_t dim : view.shape) {
      if (__builtin_mul_overflow(size, dim, &size)) {
        return corrupt(where_, "a shape whose size fits 63 bits", to_string(view.shape));
      }
    }
    return size;
  }

  int64_t data_size_;
  std::string where_;
  const std::string& name_;
  const Json& entry_;
};

Result<void> check_metadata(const Json& metadata, const std::string& name) {
  const auto& members = metadata.members();
  const bool strings = std::all_of(members.begin(), members.end(),
                                   [](const Json::Member& m) { return m.second.is_string(); });
  if (metadata.is_object() && strings) return {};
  return corrupt(name + ": __metadata__", "an object of strings", found(metadata));
}

// In the order of their data, which they must cover: no overlap, no gap.
Result<int64_t> covered_bytes(const std::vector<Entry>& entries, const std::string& name) {
  int64_t end = 0;
  for (const auto& [tensor, begin] : entries) {
    if (begin != end) {
      return corrupt(name + ": " + shown(tensor.name),
                     "its data to begin at " + std::to_string(end) +
                         ", where the data of the one before it ends",
                     std::to_string(begin) + (begin < end ? ": they overlap" : ": a gap"));
    }
    end += tensor.view.size_bytes;
  }
  return end;
}

// The entries of a header, in the order of their data, of which there are `data_size` bytes.
Result<std::vector<Entry>> parse_entries(std::string_view text, int64_t data_size,
                                         const std::string& name) {
  TRY_ASSIGN(const Json header,
             parse_json_object(text, kMaxHeaderDepth, text.size() / kMinBytesPerValue + kFreeValues)
                 .with(name + ": header"));
  std::vector<Entry> entries;
  entries.reserve(header.members().size());
  for (const Json::Member& member : header.members()) {
    if (member.first == "__metadata__") {
      if (auto checked = check_metadata(member.second, name); !checked) return checked.error();
      continue;
    }
    TRY_ASSIGN(Entry entry, EntryReader(data_size, name, member).read());
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.tensor.view.size_bytes) <
           std::pair(b.begin, b.tensor.view.size_bytes);
  });
  return entries;
}

}  // namespace

Result<std::vector<NamedTensor>> parse_safetensors(Bytes file, const std::string& name) {
  TRY_ASSIGN(const std::string_view text, header_text(file, name));
  const Bytes data = file.subspan(kPrefixBytes + text.size());
  const auto data_size = static_cast<int64_t>(data.size());
  TRY_ASSIGN(std::vector<Entry> entries, parse_entries(text, data_size, name));
  TRY_ASSIGN(const int64_t covered, covered_bytes(entries, name));
  if (covered != data_size) {
    return corrupt(name, std::to_string(covered) + " bytes of data, as the header says",
                   std::to_string(data_size));
  }
  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    entry.tensor.view.data = data.data() + entry.begin;
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

Result<std::vector<NamedTensor>> parse_safetensors_head(Bytes head, const std::string& name) {
  TRY_ASSIGN(const std::string_view text, header_text(head, name));
  if (head.size() != kPrefixBytes + text.size()) {
    return corrupt(name, "nothing behind the header",
                   std::to_string(head.size() - kPrefixBytes - text.size()) + " bytes");
  }
  TRY_ASSIGN(std::vector<Entry> entries, parse_entries(text, INT64_MAX, name));
  TRY_ASSIGN([[maybe_unused]] const int64_t covered, covered_bytes(entries, name));
  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

Bytes header_of(Bytes file) {
  return file.first(kPrefixBytes + static_cast<size_t>(load_le<uint64_t>(file.data())));
}

std::string safetensors_head(const std::vector<NamedTensor>& tensors, size_t alignment) {
  std::vector<Json::Member> header;
  int64_t size = 0;
  for (const auto& [name, view] : tensors) {
    std::vector<Json> shape;
    for (const int64_t dim : view.shape) shape.push_back(Json::integer(dim));
    std::vector<Json> offsets{Json::integer(size), Json::integer(size + view.size_bytes)};
    header.emplace_back(name, Json::object({{"dtype", Json::string(dtype_info(view.dtype).name)},
                                            {"shape", Json::array(std::move(shape))},
                                            {"data_offsets", Json::array(std::move(offsets))}}));
    size += view.size_bytes;
  }
  std::string text = Json::object(std::move(header)).dump();
  const size_t end = (kPrefixBytes + text.size() + alignment - 1) / alignment * alignment;
  text.resize(end - kPrefixBytes, ' ');
  std::string head;
  append_le<uint64_t>(head, text.size());
  return head + text;
}

std::string serialize_safetensors(const std::vector<TensorToWrite>& tensors) {
  std::vector<NamedTensor> named;
  size_t size = 0;
  for (const TensorToWrite& tensor : tensors) {
    const auto num_bytes = static_cast<int64_t>(tensor.bytes.size());
    named.push_back({tensor.name, {tensor.dtype, tensor.shape, tensor.bytes.data(), num_bytes}});
    size += tensor.bytes.size();
  }
  std::string image = safetensors_head(named);
  image.reserve(image.size() + size);
  for (const TensorToWrite& tensor : tensors) {
    image.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return image;
}

}  // namespace stoker
