#include "src/checkpoint/array_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "carillon/core/error.h"
#include "src/checkpoint/named_arrays.h"
#include "src/core/bf16.h"
#include "src/core/text.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "values are little-endian and are read without conversion");

using Json = nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::string_view metadata = "__metadata__";

struct TypeWidth {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr TypeWidth types[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                               {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                               {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

/// Returns the value of a float16 (IEEE 754 binary16) with these bits. The conversion is exact, and a NaN stays a NaN.
float float_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);  // subnormal
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

/// Detects deep nesting and equal names of arrays while the header is parsed. Json::parse with a callback would take
/// quadratic time.
class HeaderCheck : public nlohmann::json_sax<Json> {
 public:
  bool is_deep = false;
  std::optional<std::string> twice;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*count*/) override { return enter(); }
  bool start_array(std::size_t /*count*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1 && !names_.insert(name).second) twice = name;
    return !twice;
  }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/, const Json::exception& /*error*/) override {
    return false;  // Json::parse reports the error
  }

 private:
  bool enter() {
    constexpr int deepest = 3;  // levels: header, entry, shape
    is_deep = ++depth_ > deepest;
    return !is_deep;
  }
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::unordered_set<std::string> names_;
};

/// Parses a header. Errors: data; the message starts with the path.
class HeaderParser {
 public:
  HeaderParser(const std::filesystem::path& path, std::string_view header, std::uint64_t data_bytes)
      : path_(path), header_(header), data_bytes_(data_bytes) {}

  std::vector<SafetensorsEntry> parse() const {
    const Json json = parsed();
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, value] : json.items()) {
      if (name != metadata) entries.push_back(entry_of(name, value));
    }
    check_places(entries);
    return entries;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}", path_.string(), fmt::format(format, std::forward<Args>(args)...));
  }

  /// Parses the object. Refuses members with equal names. Also refuses deep nesting, which would need much memory.
  Json parsed() const {
    HeaderCheck check;
    Json::sax_parse(header_, &check);
    if (check.is_deep) refuse("its header is nested too deeply");
    if (check.twice) refuse("has two arrays '{}'", printable(*check.twice));
    Json json;
    try {
      json = Json::parse(header_);
    } catch (const Json::exception& error) {
      refuse("is no safetensors file, or a damaged one: its header is no JSON ({})", printable(error.what()));
    }
    if (!json.is_object()) refuse("is no safetensors file: its header is no JSON object");
    return json;
  }

  std::vector<std::uint64_t> counts_in(const std::string& name, const Json& entry, const char* member) const {
    const auto found = entry.find(member);
    if (found == entry.end() || !found->is_array()) refuse("'{}' has no list {}", printable(name), member);
    std::vector<std::uint64_t> counts;
    for (const Json& value : *found) {
      if (!value.is_number_unsigned()) refuse("'{}': {} has a value that is no count", printable(name), member);
      counts.push_back(value.get<std::uint64_t>());
    }
    return counts;
  }

  SafetensorsEntry entry_of(const std::string& name, const Json& value) const {
    constexpr std::size_t most_dimensions = 16;
    constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value.is_object()) refuse("'{}' is no object", printable(name));
    const auto type = value.find("dtype");
    if (type == value.end() || !type->is_string()) refuse("'{}' has no dtype", printable(name));
    SafetensorsEntry entry{.name = name, .type = type->get<std::string>(), .shape = {}};
    const auto* const known = std::ranges::find(types, entry.type, &TypeWidth::name);
    if (known == std::end(types)) refuse("'{}': unknown dtype '{}'", printable(name), printable(entry.type));
    const std::vector<std::uint64_t> shape = counts_in(name, value, "shape"),
                                     offsets = counts_in(name, value, "data_offsets");
    if (shape.size() > most_dimensions) refuse("'{}' has {} dimensions", printable(name), shape.size());
    if (offsets.size() != 2) refuse("'{}': data_offsets has {} values, not 2", printable(name), offsets.size());
    std::uint64_t bytes = known->bytes;
    for (const std::uint64_t extent : shape) {
      if (extent > largest || __builtin_mul_overflow(bytes, extent, &bytes)) {
        refuse("'{}': its shape [{}] is too large", printable(name), fmt::join(shape, ", "));
      }
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      refuse("is cut or damaged: '{}' is at bytes {} to {}, and there are {} bytes of data", printable(name),
             entry.begin, entry.end, data_bytes_);
    }
    if (entry.end - entry.begin != bytes) {
      refuse("'{}' has {} bytes where its shape makes {}", printable(name), entry.end - entry.begin, bytes);
    }
    return entry;
  }

  /// Sorts the entries by position, and checks that they cover the data without gaps and overlaps.
  void check_places(std::vector<SafetensorsEntry>& entries) const {
    std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t at = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != at) {
        refuse("'{}' begins at byte {} of the data, and the array before it ends at {}", printable(entry.name),
               entry.begin, at);
      }
      at = entry.end;
    }
    if (at != data_bytes_) refuse("it has {} bytes of data, of which the arrays use {}", data_bytes_, at);
  }

  const std::filesystem::path& path_;
  std::string_view header_;
  std::uint64_t data_bytes_;
};

/// Fills `bytes` from the file at `offset`. Errors: data (the file ends too early), io.
void read_at(const Descriptor& file, const std::filesystem::path& path, std::uint64_t offset,
             std::span<std::byte> bytes) {
  std::size_t count = 0;
  int error = ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0 ? errno : 0;
  if (error == 0) error = read_all(file.get(), bytes, count);
  if (error != 0) fail(ExitCode::io, "{}: cannot be read: {}", path.string(), errno_text(error));
  if (count < bytes.size()) fail(ExitCode::data, "{}: is cut", path.string());
}

/// Returns the end of a message about a file that is not a safetensors file. The text names the probable format of the
/// file; it is empty if the format is unknown.
std::string_view likely_content(std::string_view first) {
  if (first.starts_with("version ")) return " (it seems to be a pointer of Git LFS: run git lfs pull)";
  if (first.starts_with('<')) return " (it seems to be a web page: download the file itself)";
  return "";
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(open_plain_file(path, path.string())) {
  const std::uint64_t file_bytes = stamp_of(file_, path.string()).bytes;
  std::uint64_t header_bytes = 0;
  if (file_bytes < length_bytes)
    fail(ExitCode::data, "{}: is no safetensors file: it has {} bytes", path.string(), file_bytes);
  read_at(file_, path, 0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > max_safetensors_header_bytes || header_bytes > file_bytes - length_bytes) {
    const std::string_view first(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    fail(ExitCode::data,
         "{}: is no safetensors file, or cut: a header of {} bytes in a file of {} bytes; the limit is {}{}",
         path.string(), header_bytes, file_bytes, max_safetensors_header_bytes, likely_content(first));
  }
  std::string header(header_bytes, '\0');
  read_at(file_, path, length_bytes, std::as_writable_bytes(std::span(header)));
  data_begin_ = length_bytes + header_bytes;
  entries_ = HeaderParser(path, header, file_bytes - data_begin_).parse();
}

NamedArray SafetensorsFile::read(const SafetensorsEntry& entry) const {
  const std::uint64_t bytes = entry.end - entry.begin;
  NamedArray array{.name = entry.name, .shape = entry.shape, .values = {}};
  if (entry.type == "F32") {
    array.values.resize(bytes / sizeof(float));
    read_at(file_, path_, data_begin_ + entry.begin, std::as_writable_bytes(std::span(array.values)));
    return array;
  }
  if (entry.type != "F16" && entry.type != "BF16") {
    fail(ExitCode::data, "{}: '{}' has the dtype {}; F32, F16 and BF16 can be read", path_.string(),
         printable(entry.name), entry.type);
  }
  std::vector<std::uint16_t> halves(bytes / sizeof(std::uint16_t));
  read_at(file_, path_, data_begin_ + entry.begin, std::as_writable_bytes(std::span(halves)));
  array.values.reserve(halves.size());
  const bool is_bf16 = entry.type == "BF16";
  for (const std::uint16_t bits : halves) array.values.push_back(is_bf16 ? to_float(Bf16{bits}) : float_of_half(bits));
  return array;
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  nlohmann::ordered_json header{{metadata, {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const NamedArray& array : arrays) {
    const std::uint64_t end = at + array.values.size() * sizeof(float);
    header[array.name] = {{"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');  // spaces after the header align the
                                                                                 // data
  if (text.size() > max_safetensors_header_bytes) {
    fail(ExitCode::usage, "{}: a header of {} bytes; the limit is {}", path.string(), text.size(),
         max_safetensors_header_bytes);
  }
  const std::uint64_t size = text.size();
  NewFile file(path);
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const NamedArray& array : arrays) file.write(std::as_bytes(std::span(array.values)));
  file.finish();
  file.publish();
  sync_directory(file.directory());
}

}  // namespace carillon
