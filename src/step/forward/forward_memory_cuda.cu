#include "src/step/forward/forward_memory.h"

#include <numeric>
#include <vector>

#include "carillon/core/error.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "src/step/forward/forward_kernels.h"

namespace carillon {

ViewInputs::ViewInputs(const StepInputs& of_batch, const ImageShape& image, std::size_t samples, Device& device)
    : of_batch_(of_batch.table),
      image_(image),
      samples_(samples),
      entry_(device.allocate(StepTable::bytes_of_entry(samples))),
      images_(device.allocate(samples * image.bytes())) {
  std::vector<std::uint32_t> rows(samples);
  std::iota(rows.begin(), rows.end(), 0u);
  device.upload(rows.data(), static_cast<std::byte*>(entry_.data()) + StepTable::rows_offset,
                samples * sizeof(std::uint32_t));
  inputs_.table = of_batch.table;
  inputs_.table.entries = static_cast<const std::byte*>(entry_.data());
  inputs_.table.entry_bytes = StepTable::bytes_of_entry(samples);
  inputs_.table.records_at = StepTable::records_offset(samples);
  inputs_.table.capacity = 1;
  inputs_.table.images = static_cast<const std::uint8_t*>(images_.data());
}

void ViewInputs::write(const ImageView& view, Stream& stream) const {
  launch(WriteViewKernel{.table = of_batch_,
                         .map = ViewMap(view, image_),
                         .channels = static_cast<std::int32_t>(image_.channels),
                         .views = static_cast<std::uint8_t*>(images_.data()),
                         .batch = static_cast<std::int64_t>(samples_)},
         stream);
}

OutputRing::OutputRing(const Tensor& outputs, const StepProgress& progress, CudaDevice& device)
    : outputs_(outputs),
      progress_(progress),
      count_(static_cast<std::size_t>(outputs.shape.element_count())),
      device_(device.allocate(progress.capacity * count_ * sizeof(float))),
      host_(device.allocate_pinned(progress.capacity * count_ * sizeof(float))) {}

void OutputRing::add(ViewNumber view, float weight, Stream& stream) const {
  with_float_type(outputs_.type, [&]<typename T>(std::type_identity<T>) {
    launch(CollectOutputsKernel<T>{.progress = progress_,
                                   .outputs = static_cast<const T*>(outputs_.data),
                                   .sums = static_cast<float*>(device_.data()),
                                   .count = static_cast<std::int64_t>(count_),
                                   .weight = weight,
                                   .is_first = view.number == 0,
                                   .is_last = view.number + 1 == view.count},
           stream);
  });
}

void OutputRing::download(std::uint32_t first, std::uint32_t count, const CudaStream& stream) const {
  check(first + count <= progress_.capacity, "the outputs of a block must be contiguous");
  const std::size_t place = first * count_;
  check_cuda(cudaMemcpyAsync(static_cast<float*>(host_.data()) + place,
                             static_cast<const float*>(device_.data()) + place, count * count_ * sizeof(float),
                             cudaMemcpyDeviceToHost, stream.get()));
}

std::span<const float> OutputRing::at(std::uint32_t slot) const {
  return {static_cast<const float*>(host_.data()) + slot * count_, count_};
}

}  // namespace carillon
