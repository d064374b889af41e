#include "src/data/sources/archive_reader.h"

#include <archive_entry.h>

#include <cerrno>
#include <new>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

}  // namespace

ArchiveReader::ArchiveReader(const std::string& path, std::uint64_t max_bytes)
    : file_(path), max_bytes_(max_bytes), buffer_(buffer_bytes), archive_(archive_read_new()) {
  if (!archive_) throw std::bad_alloc();
  archive_read_support_format_tar(archive_.get());
  if (archive_read_open(archive_.get(), this, nullptr, read_more, nullptr) != ARCHIVE_OK) {
    fail_with(archive_error(archive_.get()));
  }
}

/// libarchive's callback: the next bytes of the archive, 0 at its end, -1 for an error.
la_ssize_t ArchiveReader::read_more(archive* from, void* reader, const void** bytes) {
  auto& self = *static_cast<ArchiveReader*>(reader);
  try {
    *bytes = self.buffer_.data();
    return static_cast<la_ssize_t>(self.read_file());
  } catch (...) {
    self.file_error_ = std::current_exception();
    archive_set_error(from, EIO, "the file cannot be read");
    return -1;
  }
}

std::size_t ArchiveReader::read_file() {
  const std::size_t bytes = file_.read(buffer_);
  arrived_bytes_ += bytes;
  if (arrived_bytes_ > max_bytes_) fail_too_large("it");
  return bytes;
}

bool ArchiveReader::next(ArchiveMember& member) {
  archive_entry* entry = nullptr;
  const int result = archive_read_next_header(archive_.get(), &entry);
  if (result == ARCHIVE_EOF) {
    if (!has_member_) fail_with("it has no members");
    while (read_file() > 0) continue;  // to the end: a compressed file's checksum is there
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
    if (result != ARCHIVE_OK && file_error_ == nullptr) {
      fail(ExitCode::data, "{}: the archive is cut: {} of the {} bytes of '{}' are there", path(), bytes.size(),
           member_.bytes, member_.name);
    }
    if (result != ARCHIVE_OK) fail_with(archive_error(archive_.get()));
    const auto begin = static_cast<std::uint64_t>(offset);
    if (begin < bytes.size() || begin > member_.bytes || block_bytes > member_.bytes - begin) {
      fail_with("data beyond its size");
    }
    bytes.resize(begin);  // a sparse file's hole
    const auto* const data = static_cast<const std::uint8_t*>(block);
    bytes.insert(bytes.end(), data, data + block_bytes);
  }
  bytes.resize(member_.bytes);
  return bytes;
}

void ArchiveReader::fail_with(const std::string& cause) const {
  if (file_error_) std::rethrow_exception(file_error_);
  if (!has_member_) fail(ExitCode::data, "{}: is no tar archive ({})", path(), cause);
  fail(ExitCode::data, "{}: the archive is damaged or cut behind '{}' ({})", path(), member_.name, cause);
}

void ArchiveReader::fail_too_large(const std::string& what) const {
  fail(ExitCode::data, "{}: {} goes beyond the {} MiB that an archive may have", path(), what, max_bytes_ >> 20);
}

}  // namespace carillon
