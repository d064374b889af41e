#include "src/data/convert/decompressor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {
namespace {

struct Compression {
  std::string_view magic, name;
};
constexpr Compression compressions[] = {{"\xFD"
                                         "7zXZ",
                                         "xz"},
                                        {"BZh", "bzip2"},
                                        {"\x28\xB5\x2F\xFD", "zstd"}};

}  // namespace

std::string_view compression_name(std::span<const std::byte> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), std::min<std::size_t>(data.size(), 8));
  for (const Compression& compression : compressions) {
    if (text.starts_with(compression.magic)) return compression.name;
  }
  return {};
}

Decompressor::Decompressor(std::string_view name, ByteInput compressed)
    : name_(name), input_(std::move(compressed)), archive_(archive_read_new()) {
  if (!archive_) throw std::bad_alloc();
  archive_read_support_filter_xz(archive_.get());
  archive_read_support_filter_bzip2(archive_.get());
  archive_read_support_filter_zstd(archive_.get());
  archive_read_support_format_raw(archive_.get());
  archive_entry* entry = nullptr;
  if (!input_.open(archive_.get()) || archive_read_next_header(archive_.get(), &entry) != ARCHIVE_OK) fail_damaged();
}

std::size_t Decompressor::read(std::span<std::byte> out) {
  const la_ssize_t bytes = archive_read_data(archive_.get(), out.data(), out.size());
  if (bytes < 0) fail_damaged();
  return static_cast<std::size_t>(bytes);
}

void Decompressor::fail_damaged() const {
  input_.rethrow();
  fail(ExitCode::data, "the {} data is damaged or truncated ({})", name_, archive_error(archive_.get()));
}

}  // namespace carillon
