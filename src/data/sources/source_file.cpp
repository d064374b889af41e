#include "src/data/sources/source_file.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/data/mapped_copy.h"

namespace carillon {
namespace {

bool is_zip(std::span<const std::byte> bytes) {
  constexpr std::string_view magic = "PK\x03\x04";
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(magic);
}

/// What `action` returns; its errors name the file.
template <typename Action>
auto of_file(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", path, error.what());
  }
}

}  // namespace

SourceFile::SourceFile(std::string path) : path_(std::move(path)), file_(path_), rest_(file_.bytes()) {
  if (is_zip(rest_)) fail(ExitCode::data, "{}: is compressed with zip, which is not read; unpack it first", path_);
  if (is_gzip(rest_)) gzip_.emplace(rest_);
  if (!compression_name(rest_).empty()) {
    of_file(path_, [&] { other_.emplace(rest_); });
  }
}

std::size_t SourceFile::read(std::span<std::byte> out) {
  if (gzip_) return of_file(path_, [&] { return gzip_->read(out); });
  if (other_) return of_file(path_, [&] { return other_->read(out); });
  const std::span<const std::byte> piece = rest_.first(std::min(out.size(), rest_.size()));
  of_file(path_, [&] { copy_mapped(piece, out.data()); });
  rest_ = rest_.subspan(piece.size());
  return piece.size();
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
