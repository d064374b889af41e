#include "carillon/step/feed.h"

#include "carillon/core/error.h"
#include "src/step/feeds.h"

namespace carillon {
namespace {

class CpuFeed final : public Feed {
 public:
  void write(std::uint32_t /*slot*/, const FedStep& step) override {
    inputs_.batch = step.batch;
    inputs_.scalars = step.scalars;
    inputs_.request_stop = step.request_stop;
  }
  void upload(std::uint32_t /*first*/, std::uint32_t /*count*/, Stream& /*stream*/) override {}
};

}  // namespace

std::unique_ptr<Feed> make_feed(Device& device, const FeedForm& form) {
  if (device.kind() == DeviceKind::cpu) {
    check(form.slots == 1, "a CPU's feed has one slot");
    return std::make_unique<CpuFeed>();
  }
  if constexpr (has_cuda) return make_cuda_feed(device, form);
  fail(ExitCode::failed, "this build cannot feed device {}", device.name());
}

}  // namespace carillon
