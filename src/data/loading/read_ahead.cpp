#include "src/data/loading/read_ahead.h"

#include <algorithm>
#include <exception>
#include <span>

#include "carillon/core/error.h"

namespace carillon {

ReadAhead::ReadAhead(const Dataset& dataset, SampleOrder order, std::uint64_t position, const ReadingPart& part)
    : dataset_(dataset),
      order_(std::move(order)),
      part_(part),
      next_(order_.window_at(position)),
      share_(next_.share),
      read_end_(next_.begin),
      wanted_end_(next_.end),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ReadAhead::await(std::uint64_t position, const std::stop_token& stop) {
  const SampleOrder::Window window = order_.window_at(position);
  check(window.share == share_, "the batch belongs to another share than the loader's first batch");
  std::unique_lock lock(mutex_);
  if (const std::uint64_t end = order_.window_after(window).end; end > wanted_end_) {
    wanted_end_ = end;
    changed_.notify_all();
  }
  changed_.wait(lock, stop, [&] { return read_end_ >= window.end; });
}

/// Reads this process's part of the next window.
void ReadAhead::fetch(const std::stop_token& stop) {
  constexpr std::size_t piece = 1024;  // records per update of the progress counter
  const std::vector<std::uint32_t> records = order_.records_in(next_);
  const std::size_t end = records.size() * (part_.number + 1) / part_.count;
  for (std::size_t begin = records.size() * part_.number / part_.count; begin < end; begin += piece) {
    dataset_.fetch(std::span(records).subspan(begin, std::min(piece, end - begin)), stop);
    pieces_read_.fetch_add(1, std::memory_order_relaxed);
  }
}

void ReadAhead::run(const std::stop_token& stop) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return next_.end <= wanted_end_; })) return;
    }
    try {
      fetch(stop);
    } catch (const std::exception&) {
      // The decoding thread finds the same error and reports it.
    }
    {
      const std::lock_guard lock(mutex_);
      read_end_ = next_.end;
      next_ = order_.window_after(next_);
    }
    changed_.notify_all();
  }
}

}  // namespace carillon
