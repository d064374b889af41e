// Host communicator: averages gradients in host memory, by shared memory within a host and by messages between hosts.
//
// The ranks of a host map each other's gradients. Local rank r sums slice r of a bucket over its host, in place in its
// own array. Rank r exchanges the slice with the owners of slice r on the other hosts. Then every rank copies the other
// slices from their owners. So a sum is (sum over the ranks of host 0) + (sum over the ranks of host 1) + ... A run on
// one host sends no messages. A host with one rank makes no copies. If hosts have different numbers of ranks, some
// ranks of the larger hosts own no slice.
//
//   within a host    each rank's bucket --sum--> slice r                          mean of slice r --copy--> all
//   between hosts                               slice r --reduce-scatter, scale, all-gather-->
//
// The first message is sent as soon as a bucket is complete on all ranks of the host, so messages overlap with the
// backward pass. The counters of SharedArrays:
//   started: number of buckets with complete gradients
//   reduced: number of buckets for which this rank's own slice holds the mean
//   copied: number of steps in which this rank has read all slices of the other ranks
// A rank writes new gradients only after all ranks have copied the previous gradients (acquire).
//
// In a run on one host, a rank need not read all means: see SharedHostMemory.
#include <algorithm>
#include <cstring>
#include <vector>

#include "carillon/core/reduction.h"
#include "src/comm/allreduce/communicators.h"
#include "src/comm/transport/group.h"
#include "src/comm/transport/shared_memory.h"

namespace carillon {
namespace {

using Progress = SharedArrays::Progress;
constexpr std::string_view averaging = "averaging";

/// Returns the number of ranks on the host with the fewest ranks. `hosts`: [ranks] host numbers.
int fewest_ranks(std::span<const int> hosts) {
  std::vector<int> counts;
  for (const int host : hosts) {
    if (static_cast<std::size_t>(host) >= counts.size()) counts.resize(static_cast<std::size_t>(host) + 1);
    ++counts[host];
  }
  return *std::min_element(counts.begin(), counts.end());
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(Members all, std::span<const int> hosts, Averaging how)
      : all_(std::move(all)),
        order_(how.order),
        wire_(how.wire),
        factor_(1.0f / static_cast<float>(how.divisor > 0 ? how.divisor : all_.size())),
        hosts_(hosts.begin(), hosts.end()),
        host_(all_.split(own_host(), all_.rank())),
        several_hosts_(host_.size() < all_.size()),
        slices_(fewest_ranks(hosts)),
        within_(host_.size() > 1 ? make_shared_memory_group(host_.split(0, host_.rank())) : nullptr),
        between_(several_hosts_ ? group_between_hosts(Wire::fp32) : nullptr),
        rounding_(several_hosts_ && how.wire == Wire::bf16 ? group_between_hosts(Wire::bf16) : nullptr),
        ranks_(several_hosts_ ? make_message_group(all_.split(0, all_.rank())) : nullptr),
        memory_(make_shared_host_memory(host_, arrays_, order_, factor_)) {}

  std::string_view name() const override {
    return several_hosts_ ? rounds() ? "mpi, bf16" : "mpi" : "mpi shared memory";
  }
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }

  Buffer allocate(std::size_t bytes) override {
    check(arrays_ == nullptr, "gradient memory is allocated twice");
    arrays_ = std::make_unique<SharedArrays>(host_, bytes);
    return {arrays_->own(), bytes, [](void*) {}};
  }

  void acquire(Stream& /*stream*/) override { arrays_->wait_for_all(&Progress::copied, step_, averaging); }

  void start_allreduce_mean(std::span<float> bucket, Stream& /*stream*/) override {
    start(bucket, rounding_ ? rounding_.get() : between_.get());
  }
  void start_exact_allreduce_mean(std::span<float> bucket, Stream& /*stream*/) override {
    start(bucket, between_.get());
  }
  bool rounds() const override { return several_hosts_ && wire_ == Wire::bf16; }

  void finish(Stream& /*stream*/) override {
    while (summed_ < buckets_.size()) sum_next();
    if (between_) finish_between_hosts();
    for (std::size_t i = 0; i < buckets_.size(); ++i) copy_other_slices(i);
    finished_ += buckets_.size();
    buckets_.clear();
    summed_ = 0;
    arrays_->reach(&Progress::copied, ++step_);
  }

  void broadcast(std::span<float> values, int root) override {
    const int root_host = hosts_[root];
    if (within_ && own_host() == root_host) {
      const auto before = std::count(hosts_.begin(), hosts_.begin() + root, root_host);  // the index of `root` among
                                                                                         // the ranks of its host
      within_->broadcast(values, static_cast<int>(before));
    }
    if (!several_hosts_) return;
    if (host_.rank() == 0) between_->broadcast(values, root_host);
    if (within_ && own_host() != root_host) within_->broadcast(values, 0);
  }

  void mean(std::span<float> values) override {
    if (within_) within_->all_reduce(values);
    if (several_hosts_) {
      if (host_.rank() == 0) between_->all_reduce(values);
      if (within_) within_->broadcast(values, 0);
    }
    scale(values, 1.0f / static_cast<float>(size()));
  }

  void all_gather(std::span<float> values, Stream& /*stream*/) override {
    if (Group* const all = ranks_ ? ranks_.get() : within_.get()) all->all_gather(values);
  }

  SharedHostMemory* shared_host_memory() override { return several_hosts_ ? nullptr : memory_.get(); }
  void check_peers() override { progress_mpi(); }

 private:
  struct Bucket {
    std::span<float> values;
    Group* group;  ///< group between the hosts; null if this rank owns no slice, or if all ranks are on one host
    std::unique_ptr<Group::Pending> between;  ///< operation in progress between the hosts
  };

  void start(std::span<float> bucket, Group* group) {
    buckets_.push_back({bucket, group, nullptr});
    arrays_->reach(&Progress::started, number(buckets_.size() - 1));
    if (!several_hosts_) return;
    while (summed_ < buckets_.size() && arrays_->have_all_reached(&Progress::started, number(summed_))) sum_next();
  }

  int own_host() const { return hosts_[all_.rank()]; }

  /// Returns the group of the ranks that own the same slice, one per host. Returns null if this rank owns no slice.
  std::unique_ptr<Group> group_between_hosts(Wire wire) const {
    Members members = all_.split(std::min(host_.rank(), slices_), own_host());
    if (host_.rank() >= slices_) return nullptr;
    return make_message_group(std::move(members), order_, wire);
  }

  /// Returns the value that the bucket counters have after bucket `i` of this step.
  std::uint64_t number(std::size_t i) const { return finished_ + i + 1; }

  std::span<float> slice(std::span<float> bucket, int owner) const {
    const Slice part = reduction_slice(bucket.size(), owner, slices_);
    return bucket.subspan(part.begin, part.end - part.begin);
  }
  /// Returns the address on `rank` that corresponds to `values` on this rank.
  const float* peers_copy(int rank, std::span<const float> values) const {
    return arrays_->array(rank) + (values.data() - arrays_->own());
  }
  static void scale(std::span<float> values, float factor) {
    for (float& value : values) value *= factor;
  }

  /// Sums this rank's slice of the next bucket over the host. With several hosts, starts the exchange.
  void sum_next() {
    const std::size_t i = summed_++;
    if (host_.rank() >= slices_) return;
    const std::span<float> own = slice(buckets_[i].values, host_.rank());
    std::vector<const float*> parts;
    for (int peer = 0; peer < host_.size(); ++peer) {
      arrays_->wait(&Progress::started, peer, number(i), averaging);
      parts.push_back(peers_copy(peer, own));
    }
    if (!several_hosts_) {
      sum_in_order(parts, own.size(), factor_, own.data(), order_);
      arrays_->reach(&Progress::reduced, number(i));
      return;
    }
    if (parts.size() > 1) sum_in_order(parts, own.size(), 1.0f, own.data(), order_);
    buckets_[i].between = buckets_[i].group->start_reduce_scatter(own);
  }

  void finish_between_hosts() {
    for (Bucket& bucket : buckets_) {
      const std::span<float> own = slice(bucket.values, host_.rank());
      bucket.between->wait();
      const Slice part = reduction_slice(own.size(), between_->rank(), between_->size());
      scale(own.subspan(part.begin, part.end - part.begin), factor_);
      bucket.between = bucket.group->start_all_gather(own);
    }
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      buckets_[i].between->wait();
      arrays_->reach(&Progress::reduced, number(i));
    }
  }

  void copy_other_slices(std::size_t i) {
    for (int step = 1; step <= slices_; ++step) {
      const int owner = (host_.rank() + step) % slices_;
      if (owner == host_.rank()) continue;
      arrays_->wait(&Progress::reduced, owner, number(i), averaging);
      const std::span<float> part = slice(buckets_[i].values, owner);
      std::memcpy(part.data(), peers_copy(owner, part), part.size_bytes());
    }
  }

  Members all_;
  SumOrder order_;
  Wire wire_;
  float factor_;            // multiplies the sums of start_allreduce_mean
  std::vector<int> hosts_;  // host number of each rank
  Members host_;            // the ranks of this host
  bool several_hosts_;
  int slices_;                       // number of slices per bucket
  std::unique_ptr<Group> within_;    // the ranks of this host; null if there is only one
  std::unique_ptr<Group> between_;   // the owners of this rank's slice on all hosts
  std::unique_ptr<Group> rounding_;  // as between_, but with bfloat16 messages; null if they were not requested
  std::unique_ptr<Group> ranks_;     // all ranks; null if all ranks are on one host

  std::unique_ptr<SharedArrays> arrays_;
  std::unique_ptr<SharedHostMemory> memory_;
  std::vector<Bucket> buckets_;            // the buckets of this step, in order
  std::size_t summed_ = 0;                 // number of buckets of this step that are summed over the host
  std::uint64_t finished_ = 0, step_ = 0;  // number of buckets, and of steps, before this step started
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(const Mpi& mpi, std::span<const int> hosts, WaitLimit limit,
                                                     Averaging how) {
  return std::make_unique<HostCommunicator>(Members(mpi.ranks().all.comm(), limit), hosts, how);
}

}  // namespace carillon
