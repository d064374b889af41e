#include "src/data/convert/source_file.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {
namespace {

bool is_zip(std::span<const std::byte> bytes) {
  constexpr std::string_view magic = "PK\x03\x04";
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(magic);
}

/// Returns the result of `action`; adds the file's name to its errors.
template <typename Action>
auto of_file(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", path, error.what());
  }
}

}  // namespace

SourceFile::SourceFile(std::string path) : path_(std::move(path)), file_(open_plain_file(path_, path_)) {
  unread_ = std::span(first_).first(of_file(path_, [&] { return read_stored(first_); }));
  if (is_zip(unread_)) fail(ExitCode::data, "{}: is a zip file; unpack it first", path_);
  const auto stored = [this](std::span<std::byte> out) { return read_stored(out); };
  if (is_gzip(unread_)) gzip_.emplace(stored);
  if (const auto name = compression_name(unread_); !name.empty()) {
    of_file(path_, [&] { other_.emplace(name, stored); });
  }
}

std::size_t SourceFile::read(std::span<std::byte> out) {
  return of_file(path_, [&] { return gzip_ ? gzip_->read(out) : other_ ? other_->read(out) : read_stored(out); });
}

/// Next bytes of the file, without decompression. Errors: io, without the file's name.
std::size_t SourceFile::read_stored(std::span<std::byte> out) {
  const std::size_t before = std::min(unread_.size(), out.size());
  std::ranges::copy(unread_.first(before), out.begin());
  unread_ = unread_.subspan(before);
  std::size_t count = 0;
  const int error = read_all(file_.get(), out.subspan(before), count);
  if (error != 0) fail(ExitCode::io, "cannot be read: {}", errno_text(error));
  return before + count;
}

std::vector<std::uint8_t> SourceFile::take(std::size_t bytes) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  std::vector<std::uint8_t> taken;
  while (taken.size() < bytes) {
    const std::size_t before = taken.size();
    taken.resize(before + std::min(bytes - before, piece_bytes));
    const std::size_t arrived = read(std::as_writable_bytes(std::span(taken).subspan(before)));
    taken.resize(before + arrived);
    if (arrived == 0) break;
  }
  return taken;
}

}  // namespace carillon
