// CacheMode: whether a dataset decodes its records once, into memory, or whenever they are read.
#pragma once

namespace carillon {

enum class CacheMode {
  automatic,  ///< memory when the decoded set takes at most half of the memory now available, else none; none where the
              ///< decoder draws or is slow
  memory,     ///< decode the whole set once, when it is opened
  none,       ///< keep an index of offsets; decode on every read (plain files only: GZIP has no random access)
};

}  // namespace carillon
