#include <numeric>
#include <vector>

#include "kernels/shared/launch.cuh"
#include "src/step/forward/forward_kernels.h"
#include "src/step/forward/view_inputs.h"

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

}  // namespace carillon
