// BatchLoader: one tower's batches, in stream order.
//
// Global step s takes stream positions [start + s*G, start + (s+1)*G) with G = global batch; this tower's batch starts
// at offset `tower_offset` in that range. From an in-memory dataset a batch is a list of pointers into the set and
// costs no copy; otherwise a prefetch thread decodes ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "carillon/core/batch.h"
#include "carillon/data/dataset.h"
#include "carillon/data/sample_order.h"

namespace carillon {

/// Which part of the stream a tower reads.
struct StreamSlice {
  std::uint64_t start = 0;         ///< stream position of the first global batch
  std::uint64_t global_batch = 1;  ///< samples all towers take together per step
  std::uint64_t tower_offset = 0;  ///< of this tower's first sample in the global batch
  std::size_t batch_size = 1;      ///< samples this tower takes per step
};

class BatchLoader {
 public:
  /// `dataset` must outlive the loader.
  BatchLoader(const Dataset& dataset, SampleOrder order, const StreamSlice& slice);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The next step's batch, valid until the next call. Errors: those of Dataset::read.
  const Batch& next();

 private:
  class Source;
  class MemorySource;
  class PrefetchSource;
  std::unique_ptr<Source> source_;
};

}  // namespace carillon
