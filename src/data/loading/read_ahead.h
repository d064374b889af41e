// ReadAhead: a thread that reads the windows of a stream (SampleOrder) sequentially before their records are decoded.
//
// It brings file contents into the page cache. A parallel file system then gets large sequential reads, and the
// decoding threads find most records in memory. These are all records of the process's own part of the window, and the
// records that other processes of the host have already read. Requires free memory for two windows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "carillon/data/dataset.h"
#include "src/data/loading/batch_loader.h"
#include "src/data/loading/sample_order.h"

namespace carillon {

class ReadAhead {
 public:
  /// Starts with the window of `position`. `dataset` must outlive the object; `order` must have windows.
  ReadAhead(const Dataset& dataset, SampleOrder order, std::uint64_t position, const ReadingPart& part);

  /// Waits until the window of `position` is read, then allows the next window to be read. `position` must not decrease
  /// from call to call. Requires that the position belongs to the same share as the first one.
  void await(std::uint64_t position, const std::stop_token& stop);
  /// Counter that increases while the thread makes progress. Thread-safe.
  std::uint64_t progress() const { return pieces_read_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop);
  void fetch(const std::stop_token& stop);

  const Dataset& dataset_;
  SampleOrder order_;
  ReadingPart part_;
  std::atomic<std::uint64_t> pieces_read_{0};

  std::mutex mutex_;  // guards the next members
  std::condition_variable_any changed_;
  SampleOrder::Window next_;  // window that is read next
  const std::uint64_t share_;
  std::uint64_t read_end_, wanted_end_;  // in samples of the share
  std::jthread thread_;                  // last: it uses the members above
};

}  // namespace carillon
