// Common parts of libarchive readers: handle, error text and input.
#pragma once

#include <archive.h>

#include <exception>
#include <string>
#include <vector>

#include "carillon/core/handle.h"
#include "src/data/records/byte_input.h"

namespace carillon {

using ArchiveHandle = Handle<archive*, archive_read_free>;

/// libarchive's text of its last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "unknown cause";
}

/// Passes the bytes of `input` to libarchive. Exceptions of `input` are stored until libarchive has returned.
class ArchiveInput {
 public:
  explicit ArchiveInput(ByteInput input);
  ArchiveInput(const ArchiveInput&) = delete;  // libarchive holds its address
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  /// Calls archive_read_open; returns whether it succeeds.
  bool open(archive* reader);
  /// Rethrows the exception of `input`, if there was one.
  void rethrow() const;

 private:
  static la_ssize_t read_more(archive*, void* self, const void** bytes);

  ByteInput input_;
  std::vector<std::byte> buffer_;
  std::exception_ptr error_;
};

}  // namespace carillon
