#include "src/comm/allreduce/communicators.h"

#include <thread>
#include <vector>

#include "src/comm/transport/group.h"

namespace carillon {
namespace {

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(HostSide host, Device& device, std::unique_ptr<StagingCopies> copies)
      : host_device_(std::move(host.memory)),
        host_(std::move(host.communicator)),
        device_(device),
        name_(fmt::format("{}, staged", host_->name())),
        copies_(std::move(copies)) {}

  std::string_view name() const override { return name_; }
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  Buffer allocate(std::size_t bytes) override {
    check(host_memory_.data() == nullptr, "gradient memory is allocated twice");
    host_memory_ = host_->allocate(bytes);
    copies_->prepare({static_cast<std::byte*>(host_memory_.data()), bytes});
    Buffer memory = device_.allocate(bytes);
    device_array_ = static_cast<float*>(memory.data());
    return memory;
  }

  /// The host waits here for its peers while the device runs the forward pass. Therefore this rank enqueues no copy to
  /// the host before its peers have read the values of the previous step.
  void acquire(Stream& stream) override { host_->acquire(stream); }

  void start_allreduce_mean(std::span<float> bucket, Stream& stream) override {
    copies_->start_download(buckets_.size(), bucket, on_host(bucket).data(), stream);
    buckets_.push_back(bucket);
  }

  void finish(Stream& stream) override {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      while (!copies_->downloaded(i)) wait_a_little();
      host_->start_allreduce_mean(on_host(buckets_[i]), stream);
    }
    host_->finish(stream);
    for (const std::span<float> bucket : buckets_) copies_->start_upload(on_host(bucket), bucket.data(), stream);
    buckets_.clear();
  }

  void broadcast(std::span<float> values, int root) override {
    std::vector<float> copy(values.size());
    if (rank() == root) device_.download(values.data(), copy.data(), values.size_bytes());
    host_->broadcast(copy, root);
    if (rank() != root) device_.upload(copy.data(), values.data(), values.size_bytes());
  }

  void mean(std::span<float> values) override {
    std::vector<float> copy(values.size());
    device_.download(values.data(), copy.data(), values.size_bytes());
    host_->mean(copy);
    device_.upload(copy.data(), values.data(), values.size_bytes());
  }

  /// Blocks, because the values are needed within a pass.
  void all_gather(std::span<float> values, Stream& stream) override {
    std::vector<float> copy(values.size());
    const Slice own = reduction_slice(values.size(), rank(), size());
    device_.download(values.data() + own.begin, copy.data() + own.begin, (own.end - own.begin) * sizeof(float));
    host_->all_gather(copy, stream);
    device_.upload(copy.data(), values.data(), values.size_bytes());
  }

  void check_peers() override { host_->check_peers(); }

 private:
  std::span<float> on_host(std::span<float> bucket) const {
    return {static_cast<float*>(host_memory_.data()) + (bucket.data() - device_array_), bucket.size()};
  }

  void wait_a_little() {
    check_peers();
    std::this_thread::yield();
  }

  std::unique_ptr<Device> host_device_;
  std::unique_ptr<Communicator> host_;
  Device& device_;
  std::string name_;
  Buffer host_memory_;
  std::unique_ptr<StagingCopies> copies_;  // destroyed before the memory to which the copies write
  const float* device_array_ = nullptr;
  std::vector<std::span<float>> buckets_;  // buckets of this step, in order
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(HostSide host, Device& device,
                                                       std::unique_ptr<StagingCopies> copies) {
  return std::make_unique<StagedCommunicator>(std::move(host), device, std::move(copies));
}

}  // namespace carillon
