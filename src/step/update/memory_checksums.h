// MemoryChecksums: finds arrays that change in memory between two updates.
//
// The checksum of a block is the 64-bit sum of its 32-bit words. So a change of one word is always found. Changes of
// several words can cancel each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "carillon/graph/parameters.h"

namespace carillon {

class MemoryChecksums {
 public:
  /// Elements [first, first + values.size()) of an array with the layout of the parameters.
  struct Part {
    std::string name;  ///< "variable", or the name of a slot
    std::size_t first;
    std::span<const float> values;
  };

  /// `parameters` and the memory of the parts outlive this.
  MemoryChecksums(const ParameterStore& parameters, std::vector<Part> parts);

  /// Computes the checksums. The arrays must not change until the next call.
  void record();
  /// Errors: ChangedInMemory (an array has changed since `record`; names the array and the variables of the block).
  void check() const;

 private:
  void compute(std::vector<std::uint64_t>& checksums) const;
  [[noreturn]] void fail_at(const Part& part, std::size_t block) const;

  const ParameterStore& parameters_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> recorded_;  ///< [blocks of all parts]
  bool is_recorded_ = false;
};

/// Errors: ChangedInMemory (the bytes of the arrays differ; the message names `what`).
void check_equal_bytes(std::span<const float> first, std::span<const float> second, std::string_view what);

}  // namespace carillon
