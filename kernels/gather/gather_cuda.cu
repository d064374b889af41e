// gather on a GPU.
#include <algorithm>

#include "kernels/gather/gather.h"
#include "kernels/gather/gather_kernels.h"
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"

namespace carillon {
namespace {

/// Copies the values to the device.
template <typename T>
Buffer copied_to(Device& device, const std::vector<T>& values) {
  Buffer buffer = device.allocate(std::max<std::size_t>(values.size(), 1) * sizeof(T));
  if (!values.empty()) device.upload(values.data(), buffer.data(), values.size() * sizeof(T));
  return buffer;
}

class RowsOnDevice {
 public:
  RowsOnDevice(Device& device, const WeightedRows& rows)
      : rows_(rows.rows),
        columns_(rows.columns),
        inner_(rows.inner),
        offsets_(copied_to(device, rows.offsets)),
        indices_(copied_to(device, rows.indices)),
        weights_(copied_to(device, rows.weights)) {}

  void multiply(const Tensor& from, const Tensor& to, Stream& stream) const {
    with_float_type(to.type, [&]<typename T>(std::type_identity<T>) {
      const AddWeightedRows<T> kernel{rows_,
                                      columns_,
                                      inner_,
                                      static_cast<const std::int32_t*>(offsets_.data()),
                                      static_cast<const std::int32_t*>(indices_.data()),
                                      static_cast<const float*>(weights_.data()),
                                      static_cast<const T*>(from.data),
                                      static_cast<T*>(to.data)};
      launch(ForEachElement{kernel, to.shape.element_count()}, stream);
    });
  }

 private:
  std::int64_t rows_, columns_, inner_;
  Buffer offsets_, indices_, weights_;
};

class GatherCuda final : public Op {
 public:
  GatherCuda(const WeightedRows& forward, const WeightedRows& backward, const OpContext& context,
             const OpTensors& tensors)
      : forward_(*context.device, forward), backward_(*context.device, backward), tensors_(tensors) {}

  void forward(Stream& stream) override { forward_.multiply(tensors_.inputs[0], tensors_.outputs[0], stream); }
  void backward(Stream& stream) override {
    const Tensor& dx = tensors_.input_gradients.at(0);
    if (dx) backward_.multiply(tensors_.output_gradients[0], dx, stream);
  }

 private:
  RowsOnDevice forward_, backward_;
  OpTensors tensors_;
};

}  // namespace

std::unique_ptr<Op> make_gather_cuda(const WeightedRows& forward, const WeightedRows& backward,
                                     const OpContext& context, const OpTensors& tensors) {
  return std::make_unique<GatherCuda>(forward, backward, context, tensors);
}

}  // namespace carillon
