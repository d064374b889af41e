// CacheMode: whether a dataset decodes its records once, into memory, or whenever they are read.
#pragma once

namespace carillon {

enum class CacheMode {
  automatic,  ///< memory if the decoded dataset fits in half of the available memory, otherwise none; none if the
              ///< decoder draws random numbers or is slow
  memory,     ///< decode the whole dataset once, when it is opened
  none,       ///< keep an index of offsets; decode on every read (plain files only, GZIP has no random access)
};

}  // namespace carillon
