#include "src/data/convert/archive_reader.h"

#include <archive_entry.h>

#include <array>
#include <new>

#include "carillon/core/error.h"

namespace carillon {

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
    while (read_file(rest) > 0) continue;  // a compressed file's checksum is at the end
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
    bytes.resize(begin);  // fills the hole of a sparse file with zeros
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
