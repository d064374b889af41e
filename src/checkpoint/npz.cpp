#include "src/checkpoint/array_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <new>
#include <optional>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/text.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little,
              ".npy values are little-endian and are written without conversion");

using Writer = Handle<archive*, archive_write_free>;
using Reader = Handle<archive*, archive_read_free>;
using Entry = Handle<archive_entry*, archive_entry_free>;

constexpr std::string_view magic = "\x93NUMPY", suffix = ".npy";
constexpr std::size_t alignment = 64;  // alignment of the values in the file

std::string cause_of(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "no cause is known";
}

/// Returns the bytes before the values of an array: magic, version 1.0, the length of the header, and the header, which
/// is a Python dictionary.
std::string npy_header(const std::vector<std::int64_t>& shape) {
  const std::string extents = fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents);
  const std::size_t front = magic.size() + 4;
  text.append(alignment - (front + text.size() + 1) % alignment, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text;
}

la_ssize_t append(archive*, void* bytes, const void* data, std::size_t count) {
  const auto* const first = static_cast<const std::byte*>(data);
  static_cast<std::vector<std::byte>*>(bytes)->insert(static_cast<std::vector<std::byte>*>(bytes)->end(), first,
                                                      first + count);
  return static_cast<la_ssize_t>(count);
}

void add_entry(archive* writer, const ListedArray& listed, const std::filesystem::path& path) {
  const std::vector<float>& values = listed.array->values;
  const std::string header = npy_header(listed.array->shape);
  const std::size_t bytes = values.size() * sizeof(float);
  const Entry entry(archive_entry_new());
  if (!entry) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), (listed.name + std::string(suffix)).c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(header.size() + bytes));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  const auto put = [&](const void* data, std::size_t count) {
    return archive_write_data(writer, data, count) == static_cast<la_ssize_t>(count);
  };
  if (archive_write_header(writer, entry.get()) != ARCHIVE_OK || !put(header.data(), header.size()) ||
      !put(values.data(), bytes)) {
    fail(ExitCode::io, "{}: '{}' cannot be written: {}", path.string(), listed.name, cause_of(writer));
  }
}

/// Parses a .npy file: a dictionary and the values of an array. Errors: data; the message starts with `subject`.
class NpyParser {
 public:
  NpyParser(std::string_view file, std::string subject) : file_(file), subject_(std::move(subject)) {}

  void parse(NamedArray& array) {
    const std::string_view header = take_header();
    const std::string_view type = value_of(header, "descr");
    const bool is_double = type == "'<f8'";
    if (!is_double && type != "'<f4'") refuse("its type is {}, not float32 or float64 ('<f4', '<f8')", printable(type));
    if (value_of(header, "fortran_order") != "False")
      refuse("it is in column order: save numpy.ascontiguousarray(array)");
    const std::uint64_t count = parse_shape(value_of(header, "shape"), array.shape);
    const std::size_t width = is_double ? sizeof(double) : sizeof(float);
    if (file_.size() / width != count || file_.size() % width != 0) {
      refuse("its shape requires {} values, but the file has {} bytes of values", count, file_.size());
    }
    array.values.resize(count);
    if (!is_double) {
      std::memcpy(array.values.data(), file_.data(), file_.size());
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      double value = 0.0;
      std::memcpy(&value, file_.data() + i * width, width);
      array.values[i] = static_cast<float>(value);
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}", subject_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view take(std::size_t bytes) {
    if (bytes > file_.size()) refuse("the file is truncated");
    const std::string_view taken = file_.substr(0, bytes);
    file_.remove_prefix(bytes);
    return taken;
  }

  std::string_view take_header() {
    if (take(magic.size()) != magic) refuse("it is no .npy file");
    const auto version = static_cast<unsigned char>(take(2).front());
    if (version < 1 || version > 3) refuse("version {} of .npy files is not supported", version);
    std::size_t length = 0, place = 0;
    for (const char byte : take(version == 1 ? 2 : 4)) {
      length |= static_cast<std::size_t>(static_cast<unsigned char>(byte)) << 8 * place++;
    }
    if (length > max_npy_header_bytes)
      refuse("its header has {} bytes, more than the limit of {}", length, max_npy_header_bytes);
    return take(length);
  }

  /// Returns the dictionary's value for `key`, without the comma that follows. A tuple includes its brackets.
  std::string_view value_of(std::string_view header, std::string_view key) const {
    const std::size_t at = header.find(fmt::format("'{}':", key));
    if (at == header.npos) refuse("its header has no '{}'", key);
    std::string_view rest = header.substr(at + key.size() + 3);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const bool is_tuple = rest.starts_with('(');
    const std::size_t end = rest.find(is_tuple ? ')' : ',');
    if (end == rest.npos) refuse("its header ends after '{}'", key);
    return rest.substr(0, is_tuple ? end + 1 : end);
  }

  /// Parses a tuple such as "(784, 10)" and appends its numbers to `shape`. Returns the number of values.
  std::uint64_t parse_shape(std::string_view text, std::vector<std::int64_t>& shape) const {
    std::uint64_t count = 1;
    const std::string_view whole = text;
    if (!text.starts_with('(')) refuse("its shape is {}", printable(whole));
    text.remove_prefix(1);
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
      if (text.starts_with(')')) return count;
      std::int64_t extent = -1;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
      const bool is_number = error == std::errc{} && extent >= 0;
      if (!is_number || __builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) {
        refuse("its shape is {}", printable(whole));
      }
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      shape.push_back(extent);
    }
  }

  std::string_view file_;
  std::string subject_;
};

class NpzReader {
 public:
  NpzReader(const std::filesystem::path& path, std::uint64_t max_bytes)
      : path_(path), left_(max_bytes), descriptor_(open_plain_file(path, path.string())), reader_(archive_read_new()) {
    if (!reader_) throw std::bad_alloc();
    archive_read_support_format_zip(reader_.get());
    constexpr std::size_t block_bytes = std::size_t{64} << 10;
    if (archive_read_open_fd(reader_.get(), descriptor_.get(), block_bytes) != ARCHIVE_OK) refuse();
  }

  std::optional<NamedArray> next() {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(reader_.get(), &entry);
    if (result == ARCHIVE_EOF) return std::nullopt;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) refuse();
    const char* const text = archive_entry_pathname(entry);
    NamedArray array{.name = text != nullptr ? text : "", .shape = {}, .values = {}};
    const std::string subject = fmt::format("{}: '{}'", path_.string(), printable(array.name));
    if (!array.name.ends_with(suffix)) fail(ExitCode::data, "{} is no .npy file", subject);
    const std::string content = read_content(subject);
    NpyParser(content, subject).parse(array);
    array.name.resize(array.name.size() - suffix.size());
    return array;
  }

 private:
  [[noreturn]] void refuse() const {
    fail(ExitCode::data, "{}: is no .npz file, or a damaged one ({})", path_.string(), cause_of(reader_.get()));
  }

  std::string read_content(const std::string& subject) {
    std::string content;
    std::vector<char> block(std::size_t{1} << 16);
    while (true) {
      const la_ssize_t bytes = archive_read_data(reader_.get(), block.data(), block.size());
      if (bytes == 0) return content;
      if (bytes < 0) fail(ExitCode::data, "{}: is damaged or truncated ({})", subject, cause_of(reader_.get()));
      if (static_cast<std::uint64_t>(bytes) > left_)
        fail(ExitCode::data, "{}: has more data than the checkpoint's arrays", subject);
      left_ -= static_cast<std::uint64_t>(bytes);
      content.append(block.data(), static_cast<std::size_t>(bytes));
    }
  }

  std::filesystem::path path_;
  std::uint64_t left_;  ///< largest number of bytes that the remaining arrays and headers may have together
  Descriptor descriptor_;
  Reader reader_;
};

}  // namespace

void write_npz(const std::filesystem::path& path, std::span<const ListedArray> arrays) {
  std::vector<std::byte> bytes;
  {
    const Writer writer(archive_write_new());
    if (!writer) throw std::bad_alloc();
    archive_write_set_format_zip(writer.get());
    archive_write_zip_set_compression_store(writer.get());
    archive_write_set_bytes_in_last_block(writer.get(), 1);
    const auto check_result = [&](int result) {
      if (result != ARCHIVE_OK) fail(ExitCode::io, "{}: cannot be written: {}", path.string(), cause_of(writer.get()));
    };
    check_result(archive_write_open(writer.get(), &bytes, nullptr, append, nullptr));
    for (const ListedArray& listed : arrays) add_entry(writer.get(), listed, path);
    check_result(archive_write_close(writer.get()));
  }
  write_file_atomically(path, bytes);
}

std::vector<NamedArray> read_npz(const std::filesystem::path& path, std::uint64_t max_bytes) {
  NpzReader reader(path, max_bytes);
  std::vector<NamedArray> arrays;
  while (std::optional<NamedArray> array = reader.next()) arrays.push_back(std::move(*array));
  return arrays;
}

}  // namespace carillon
