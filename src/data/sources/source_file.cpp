#include "src/data/sources/source_file.h"

#include <algorithm>
#include <string_view>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

/// A compression that is not read here: the file's first bytes, its name, and the command that undoes it.
struct Compression {
  std::string_view magic;
  const char* name;
  const char* remedy;
};

void refuse_other_compression(const std::string& path, std::span<const std::byte> bytes) {
  static constexpr Compression others[] = {{"\xFD"
                                            "7zXZ",
                                            "xz", "tar xJf, or xz -d"},
                                           {"BZh", "bzip2", "tar xjf, or bzip2 -d"},
                                           {"\x28\xB5\x2F\xFD", "zstd", "tar --zstd -xf, or zstd -d"},
                                           {"PK\x03\x04", "zip", "unzip"}};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 8));
  for (const Compression& other : others)
    if (text.starts_with(other.magic))
      fail(ExitCode::data, "{}: is compressed with {}, which is not read; unpack it first ({})", path, other.name,
           other.remedy);
}

}  // namespace

SourceFile::SourceFile(std::string path)
    : path_(std::move(path)), file_(path_), gzip_(is_gzip(file_.bytes())), rest_(file_.bytes()), stream_(rest_) {
  refuse_other_compression(path_, rest_);
}

std::vector<std::uint8_t> SourceFile::take(std::size_t bytes) {
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

std::uint64_t SourceFile::skip(std::uint64_t bytes) {
  std::uint64_t skipped = 0;
  std::vector<std::byte> piece(std::min<std::uint64_t>(bytes, piece_bytes));
  while (skipped < bytes) {
    const std::size_t arrived = read(std::span(piece).first(std::min<std::uint64_t>(bytes - skipped, piece.size())));
    if (arrived == 0) break;
    skipped += arrived;
  }
  return skipped;
}

std::size_t SourceFile::read(std::span<std::byte> out) {
  if (!gzip_) {
    const auto piece = rest_.first(std::min(out.size(), rest_.size()));
    std::ranges::copy(piece, out.begin());
    rest_ = rest_.subspan(piece.size());
    return piece.size();
  }
  try {
    return stream_.read(out);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", path_, error.what());
  }
}

}  // namespace carillon
