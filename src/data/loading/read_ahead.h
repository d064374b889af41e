// ReadAhead: a thread that reads a stream's windows (SampleOrder) before they are decoded, in long runs.
//
// It reads files from the file system into the machine's memory, no further: a parallel file system so sees large
// sequential reads, and those who decode find most records in memory (a process's own part of the window all, what
// others of its host read if they have come so far). Memory for two windows should be free.
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
  /// Begins with the window of `position`. `dataset` must outlive it; `order` has windows.
  ReadAhead(const Dataset& dataset, SampleOrder order, std::uint64_t position, const ReadingPart& part);

  /// Waits until the window of `position`, which grows from call to call, has been read; lets the next one be read.
  /// Requires that the position is of the same share as the first.
  void await(std::uint64_t position, const std::stop_token& stop);
  /// Grows while the thread gets on. From any thread.
  std::uint64_t progress() const { return pieces_read_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop);
  void fetch(const std::stop_token& stop);

  const Dataset& dataset_;
  SampleOrder order_;
  ReadingPart part_;
  std::atomic<std::uint64_t> pieces_read_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  SampleOrder::Window next_;  // to read
  const std::uint64_t share_;
  std::uint64_t read_end_, wanted_end_;  // samples of the share
  std::jthread thread_;                  // last: it uses all of the above
};

}  // namespace carillon
