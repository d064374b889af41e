#include "src/data/convert/source_file.h"

#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

}  // namespace

ArchiveInput::ArchiveInput(ByteInput input) : input_(std::move(input)), buffer_(buffer_bytes) {}

bool ArchiveInput::open(archive* reader) {
  return archive_read_open(reader, this, nullptr, read_more, nullptr) == ARCHIVE_OK;
}

/// Callback for libarchive: sets `bytes` to the next bytes and returns their number. Returns 0 at the end and -1 after
/// an error.
la_ssize_t ArchiveInput::read_more(archive* from, void* self, const void** bytes) {
  auto& input = *static_cast<ArchiveInput*>(self);
  try {
    *bytes = input.buffer_.data();
    return static_cast<la_ssize_t>(input.input_(input.buffer_));
  } catch (...) {
    input.error_ = std::current_exception();
    archive_set_error(from, EIO, "cannot read the file");
    return -1;
  }
}

void ArchiveInput::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

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

namespace {

bool is_zip(std::span<const std::byte> bytes) {
  constexpr std::string_view magic = "PK\x03\x04";
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(magic);
}

/// Returns the result of `action`. If `action` throws, adds the name of the file to the error.
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

/// Reads the next bytes of the file without decompressing them. Errors: io (the message does not contain the file's
/// name).
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

ArchiveReader::ArchiveReader(const std::string& path, std::uint64_t max_bytes)
    : file_(path),
      max_bytes_(max_bytes),
      input_([this](std::span<std::byte> out) { return read_file(out); }),
      archive_(archive_read_new()) {
  if (!archive_) throw std::bad_alloc();
  archive_read_support_format_tar(archive_.get());
  if (!input_.open(archive_.get())) fail_with(archive_error(archive_.get()));
}

std::size_t ArchiveReader::read_file(std::span<std::byte> out) {
  const std::size_t bytes = file_.read(out);
  arrived_bytes_ += bytes;
  if (arrived_bytes_ > max_bytes_) fail_too_large("it");
  return bytes;
}

bool ArchiveReader::next(ArchiveMember& member) {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(archive_.get(), &entry);
  if (result == ARCHIVE_EOF) {
    if (!has_member_) fail_with("no members");
    std::array<std::byte, 4096> rest;
    while (read_file(rest) > 0) continue;  // reads the checksum that is at the end of a compressed file
    return false;
  }
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_with(archive_error(archive_.get()));
  has_member_ = true;
  const char* const name = archive_entry_pathname(entry);
  const auto bytes = static_cast<std::uint64_t>(archive_entry_size(entry));
  member_ = {.name = name != nullptr ? name : "", .bytes = bytes, .is_file = archive_entry_filetype(entry) == AE_IFREG};
  if (bytes > max_bytes_ - member_bytes_) fail_too_large(fmt::format("member '{}'", member_.name));
  member_bytes_ += bytes;
  member = member_;
  return true;
}

std::vector<std::uint8_t> ArchiveReader::content() {
  std::vector<std::uint8_t> bytes;
  const void* block = nullptr;
  std::size_t block_bytes = 0;
  la_int64_t offset = 0;
  for (;;) {
    const int result = archive_read_data_block(archive_.get(), &block, &block_bytes, &offset);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) {
      input_.rethrow();
      fail(ExitCode::data, "{}: the archive is truncated: only {} of {} bytes of '{}'", path(), bytes.size(),
           member_.bytes, member_.name);
    }
    const auto begin = static_cast<std::uint64_t>(offset);
    if (begin < bytes.size() || begin > member_.bytes || block_bytes > member_.bytes - begin) {
      fail_with("data beyond the member's size");
    }
    bytes.resize(begin);  // writes zeros into the hole of a sparse file
    const auto* const data = static_cast<const std::uint8_t*>(block);
    bytes.insert(bytes.end(), data, data + block_bytes);
  }
  bytes.resize(member_.bytes);
  return bytes;
}

void ArchiveReader::fail_with(const std::string& cause) const {
  input_.rethrow();
  if (!has_member_) fail(ExitCode::data, "{}: not a tar archive ({})", path(), cause);
  fail(ExitCode::data, "{}: the archive is damaged or truncated after '{}' ({})", path(), member_.name, cause);
}

void ArchiveReader::fail_too_large(const std::string& what) const {
  fail(ExitCode::data, "{}: {} exceeds the limit of {} MiB per archive", path(), what, max_bytes_ >> 20);
}

}  // namespace carillon
