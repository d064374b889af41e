#include "carillon/step/feed.h"

#include "carillon/core/error.h"
#include "carillon/core/has_cuda.h"
#include "src/step/feeds.h"

namespace carillon {
namespace {

class CpuFeed final : public Feed {
 public:
  explicit CpuFeed(std::size_t batch_size) : batch_size_(batch_size) {}

  void write(std::uint32_t /*slot*/, const FedStep& step) override {
    check(step.batch.images.size() == batch_size_, "a batch of another size");
    inputs_.batch = step.batch;
    inputs_.scalars = step.scalars;
    inputs_.request_pause = step.request_pause;
  }
  void upload(std::uint32_t /*first*/, std::uint32_t /*count*/, Stream& /*stream*/) override {}

 private:
  std::size_t batch_size_;
};

}  // namespace

std::unique_ptr<Feed> make_feed(Device& device, const FeedForm& form) {
  if (device.kind() == DeviceKind::cpu) {
    check(form.slots == 1, "a CPU's feed has one slot");
    return std::make_unique<CpuFeed>(form.batch_size);
  }
  if constexpr (has_cuda) return make_cuda_feed(device, form);
  fail(ExitCode::failed, "this build cannot feed device {}", device.name());
}

}  // namespace carillon
