#include "src/step/gradients/reducer.h"

#include <algorithm>

#include "carillon/core/error.h"

namespace carillon {
namespace {

/// Returns the offset, in elements, of the end of parameter number `place` in the layout's order. The end includes the
/// padding after the parameter, so that buckets are aligned.
std::size_t end_of(const ParameterLayout& layout, std::size_t place) {
  const std::vector<int>& order = layout.order();
  return place + 1 < order.size() ? layout.offset(order[place + 1]) : layout.total();
}

/// Returns the length of the largest bucket.
std::size_t largest(const std::vector<std::size_t>& ends) {
  std::size_t begin = 0, length = 0;
  for (const std::size_t end : ends) {
    length = std::max(length, end - begin);
    begin = end;
  }
  return length;
}

}  // namespace

std::size_t bucket_bytes_on(DeviceKind device, std::size_t requested, std::span<const int> hosts) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  if (requested > 0) return requested;
  if (device == DeviceKind::cpu) return 4 * mib;
  const bool on_several_hosts = std::ranges::any_of(hosts, [&](int host) { return host != hosts.front(); });
  return (on_several_hosts ? 25 : 8) * mib;
}

std::vector<std::size_t> bucket_ends(const ParameterLayout& layout, std::size_t bucket_bytes, std::size_t sum_count) {
  std::vector<std::size_t> ends;
  std::size_t begin = 0;
  for (std::size_t place = 0; place < layout.order().size(); ++place) {
    const std::size_t end = end_of(layout, place);
    if ((end - begin) * sizeof(float) >= bucket_bytes) {
      ends.push_back(end);
      begin = end;
    }
  }
  const std::size_t total = layout.total() + sum_count;
  if (ends.empty() || begin < layout.total()) {
    ends.push_back(total);
  } else {
    ends.back() = total;
  }
  return ends;
}

Reducer::Reducer(Communicator& communicator, const ParameterStore& parameters, std::size_t bucket_bytes)
    : communicator_(communicator),
      parameters_(parameters),
      ends_(bucket_ends(parameters.layout(), bucket_bytes, parameters.step_sums().size())),
      sums_alone_(communicator.rounds()) {
  if (sums_alone_) ends_.insert(ends_.end() - 1, parameters.layout().total());
  communicator_.prepare(largest(ends_));
}

void Reducer::begin(Stream& stream) {
  communicator_.acquire(stream);
  next_parameter_ = 0;
  next_bucket_ = 0;
}

void Reducer::add(int parameter, Stream& stream) {
  const ParameterLayout& layout = parameters_.layout();
  check(next_parameter_ < layout.order().size() && layout.order()[next_parameter_] == parameter,
        "gradients were added to the reducer out of order");
  std::size_t complete = end_of(layout, next_parameter_++);
  if (next_parameter_ == layout.order().size()) complete = ends_.back();
  while (next_bucket_ < ends_.size() && ends_[next_bucket_] <= complete) start_next(stream);
}

void Reducer::start_next(Stream& stream) {
  const std::size_t begin = next_bucket_ == 0 ? 0 : ends_[next_bucket_ - 1], end = ends_[next_bucket_++];
  const std::span<float> bucket = parameters_.gradients_and_sums().subspan(begin, end - begin);
  if (sums_alone_ && next_bucket_ == ends_.size()) {
    communicator_.start_exact_allreduce_mean(bucket, stream);
  } else {
    communicator_.start_allreduce_mean(bucket, stream);
  }
}

void Reducer::finalize(Stream& stream) {
  check(next_bucket_ == ends_.size(), "a gradient was not added to the reducer");
  communicator_.finish(stream);
}

}  // namespace carillon
