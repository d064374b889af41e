// Makes archives and compressed data for tests, by hand or with libarchive.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <string>

#include "carillon/core/error.h"
#include "carillon/core/handle.h"

namespace carillon {

/// Writes the checksum into the tar header with which `member` begins.
inline void put_tar_checksum(std::string& member) {
  std::fill_n(member.begin() + 148, 8, ' ');
  unsigned sum = 0;
  for (const char c : member.substr(0, 512)) sum += static_cast<unsigned char>(c);
  member.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
}

/// Returns one member of a tar archive in the format of POSIX.1-1988.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(124, fmt::format("{:011o}", content.size()));
  put(156, std::string(1, type));
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put_tar_checksum(header);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

/// Returns `member` with `bytes` as its declared size, in base 256. The content does not change.
inline std::string with_size(std::string member, std::uint64_t bytes) {
  for (std::size_t i = 11; i > 0; --i, bytes >>= 8) member[124 + i] = static_cast<char>(bytes & 0xFF);
  member[124] = '\x80';
  put_tar_checksum(member);
  return member;
}

/// Returns `bytes`, compressed. `compression`: "xz", "bzip2", "zstd" or "gzip".
inline std::string compressed(const std::string& bytes, const char* compression) {
  const Handle<archive*, archive_write_free> out(archive_write_new());
  archive_write_set_format_raw(out.get());
  archive_write_add_filter_by_name(out.get(), compression);
  archive_write_set_bytes_per_block(out.get(), 0);
  std::string result(bytes.size() + 4096, '\0');
  std::size_t used = 0;
  archive_write_open_memory(out.get(), result.data(), result.size(), &used);
  const Handle<archive_entry*, archive_entry_free> entry(archive_entry_new());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_write_header(out.get(), entry.get());
  archive_write_data(out.get(), bytes.data(), bytes.size());
  archive_write_close(out.get());
  result.resize(used);
  return result;
}

}  // namespace carillon
