// Verdict: the result of parsing an Example. Tests compare the Verdicts of two parsers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/data/record.h"

namespace carillon {

struct Verdict {
  std::string error;  ///< empty: the record is accepted
  std::int64_t label = -1;
  std::string image;
  bool operator==(const Verdict&) const = default;
};

template <typename Parse>
Verdict verdict_on(const Parse& parse, std::span<const std::uint8_t> record, const ExampleKeys& keys) {
  Verdict verdict;
  try {
    // The copy is exactly as large as the record, so that AddressSanitizer detects a read beyond its end.
    const std::vector<std::uint8_t> copy(record.begin(), record.end());
    std::string scratch;
    const LabelledBytes found = parse(copy, keys, scratch);
    verdict.label = found.label;
    verdict.image.assign(found.image.begin(), found.image.end());
  } catch (const Error& error) {
    verdict.error = error.what();
  }
  return verdict;
}

}  // namespace carillon
