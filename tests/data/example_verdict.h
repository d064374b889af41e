// What a parser of Examples says about a record: for comparing two of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/example.h"

namespace carillon {

struct Verdict {
  std::string error;  ///< empty when the record is accepted
  std::int32_t label = -1;
  std::vector<std::uint8_t> image;
  bool operator==(const Verdict&) const = default;
};

template <typename Decode>
Verdict verdict_on(const Decode& decode, std::span<const std::uint8_t> record, const RecordSchema& schema) {
  Verdict verdict{.error = "", .label = -1, .image = std::vector<std::uint8_t>(schema.image_bytes)};
  try {
    // A copy of the exact size: address sanitizer sees a read beyond it.
    const std::vector<std::uint8_t> copy(record.begin(), record.end());
    verdict.label = decode(copy, schema, verdict.image);
  } catch (const Error& error) {
    verdict.error = error.what();
  }
  return verdict;
}

}  // namespace carillon
