// What readers by libarchive share: the handle, and what it says went wrong.
#pragma once

#include <archive.h>

#include <string>

#include "carillon/core/handle.h"

namespace carillon {

using ArchiveHandle = Handle<archive*, archive_read_free>;

/// libarchive's words about its last error.
inline std::string archive_error(archive* from) {
  const char* const text = archive_error_string(from);
  return text != nullptr ? text : "no cause is known";
}

}  // namespace carillon
