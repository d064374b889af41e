#include "src/train/checkpointing/checkpoint_saver.h"

#include <algorithm>
#include <thread>

namespace carillon {
namespace {

constexpr std::chrono::seconds first_pause{1}, longest_pause{60};

std::chrono::seconds pause_after(std::int64_t failures, std::chrono::seconds longest) {
  constexpr std::int64_t max_doublings = 6;  // 2^6 s is above longest_pause
  return std::min(longest, first_pause * (1 << std::min(failures - 1, max_doublings)));
}

}  // namespace

CheckpointSaver::CheckpointSaver(std::unique_ptr<CheckpointWriter> writer, Settings settings)
    : settings_(std::move(settings)), writer_(std::move(writer)) {}

void CheckpointSaver::start(CheckpointState state) {
  if (is_writing_) take_result(Clock::now(), longest_pause);
  failed_.reset();
  writer_->start(std::move(state));
  is_writing_ = true;
}

void CheckpointSaver::poll(Clock::time_point now) {
  if (is_writing_ && writer_->is_done()) take_result(now, longest_pause);
  if (failed_ && !given_up_ && now >= retry_at_) start_again();
}

void CheckpointSaver::start_again() {
  failed_.reset();
  writer_->start_again();
  is_writing_ = true;
}

void CheckpointSaver::take_result(Clock::time_point now, std::chrono::seconds max_pause) {
  is_writing_ = false;
  try {
    writer_->wait();
    failures_ = 0;
  } catch (const Error& error) {
    failed_ = error;
    if (++failures_ > settings_.max_failures) {
      if (!given_up_) given_up_ = error;
      return;
    }
    const std::chrono::seconds pause = pause_after(failures_, max_pause);
    retry_at_ = now + pause;
    settings_.warn(fmt::format("{}; next attempt in {} s (failure {} of --checkpoint-failures {} in a row)",
                               error.what(), pause.count(), failures_, settings_.max_failures));
  }
}

void CheckpointSaver::finish() {
  for (;;) {
    if (is_writing_) take_result(Clock::now(), first_pause);  // the run waits for it
    if (!failed_) return;
    if (failures_ > settings_.max_failures) throw Error(*failed_);
    std::this_thread::sleep_for(first_pause);
    start_again();
  }
}

}  // namespace carillon
