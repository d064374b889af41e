// StoredSamples: the outputs and targets of all samples of an evaluation, in the order of the records.
//
// Used by metrics that need all samples at once, such as average precision. Every rank merges the parts of all ranks in
// rank order, so the samples and all sums over them are the same at any number of ranks. Each rank needs memory for the
// outputs and targets of all records. During the merge it needs up to three times as much.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

class StoredSamples {
 public:
  /// `outputs`, `target_bytes`: number of outputs and bytes of the target of one sample, both above 0.
  StoredSamples(std::size_t outputs, std::size_t target_bytes) : columns_(outputs), target_bytes_(target_bytes) {}

  std::size_t count() const { return outputs_.size() / columns_; }
  /// Outputs per sample.
  std::size_t columns() const { return columns_; }
  std::span<const float> outputs() const { return outputs_; }
  std::span<const std::byte> targets() const { return targets_; }

  /// As Metric::add.
  void add(std::span<const float> outputs, std::span<const std::byte> targets);
  /// As Metric::contents.
  std::string contents() const;
  /// As Metric::merge. Errors: failed.
  void merge(std::string_view contents);

 private:
  std::size_t columns_, target_bytes_;
  std::vector<float> outputs_;      ///< [count, columns]
  std::vector<std::byte> targets_;  ///< [count, target_bytes]
};

}  // namespace carillon
