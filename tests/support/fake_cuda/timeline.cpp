#include "timeline.h"

#include <algorithm>
#include <utility>

#include "fake_cuda.h"
#include "memory.h"

namespace fake_cuda {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Timeline& timeline() {
  static Timeline instance;
  return instance;
}

std::recursive_mutex& api_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

WorkRef Timeline::add(std::function<void()> run, int lane, std::span<const WorkRef> after) {
  auto work = std::make_shared<Work>();
  work->run = std::move(run);
  work->lane = lane;
  for (const WorkRef& before : after) {
    if (before == nullptr || before->done) continue;
    before->dependents.push_back(work);
    ++work->blockers;
  }
  if (work->blockers == 0) ready_.push_back(work);
  return work;
}

WorkRef Timeline::add_stalled() {
  auto work = std::make_shared<Work>();
  work->run = [] {};
  work->blockers = 1;
  return work;
}

void Timeline::release(const WorkRef& stalled) {
  if (--stalled->blockers == 0) ready_.push_back(stalled);
}

WorkRef Timeline::take_next() {
  constexpr std::uint64_t pieces_between_changes = 8;
  if (draw(pieces_between_changes) == 0) priorities_ = random_();
  const auto priority = [&](const WorkRef& work) { return mix(priorities_ + static_cast<std::uint64_t>(work->lane)); };
  const auto next = std::ranges::max_element(ready_, {}, priority);
  WorkRef work = std::move(*next);
  ready_.erase(next);
  return work;
}

void Timeline::run_one() {
  const WorkRef work = take_next();
  work->run();
  work->run = nullptr;
  work->done = true;
  for (const WorkRef& next : std::exchange(work->dependents, {})) {
    if (--next->blockers == 0) ready_.push_back(next);
  }
}

void Timeline::run_until_done(const WorkRef& work) {
  if (work == nullptr || work->done) return;
  const DeviceMemory::Access access;
  while (!work->done) {
    if (ready_.empty()) misuse("a wait for work that nothing can bring about");
    run_one();
  }
}

void Timeline::run_some(std::uint64_t pieces) {
  if (ready_.empty()) return;
  const DeviceMemory::Access access;
  for (; pieces > 0 && !ready_.empty(); --pieces) run_one();
}

void Timeline::run_all() {
  if (ready_.empty()) return;
  const DeviceMemory::Access access;
  while (!ready_.empty()) run_one();
}

}  // namespace fake_cuda
