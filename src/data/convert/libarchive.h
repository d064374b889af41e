// What readers by libarchive share: the handle, what it says went wrong, and where its bytes come from.
#pragma once

#include <archive.h>

#include <exception>
#include <string>
#include <vector>

#include "carillon/core/handle.h"
#include "src/data/records/byte_input.h"

namespace carillon {

using ArchiveHandle = Handle<archive*, archive_read_free>;

/// libarchive's words about its last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "no cause is known";
}

/// Gives libarchive the bytes of `input`, whose errors wait until libarchive has returned.
class ArchiveInput {
 public:
  explicit ArchiveInput(ByteInput input);
  ArchiveInput(const ArchiveInput&) = delete;  // libarchive holds its address
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  /// archive_read_open: whether `reader` takes what it is given.
  bool open(archive* reader);
  /// Throws what `input` has thrown, if it has.
  void rethrow() const;

 private:
  static la_ssize_t read_more(archive*, void* self, const void** bytes);

  ByteInput input_;
  std::vector<std::byte> buffer_;
  std::exception_ptr error_;
};

}  // namespace carillon
