// The definitions of constant and variable, and the ops on a CPU.
#include "kernels/values/values.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/rows_cpu.h"
#include "kernels/values/values_kernels.h"

namespace carillon {
namespace {

class ConstantCpu final : public Op {
 public:
  ConstantCpu(std::shared_ptr<const std::vector<float>> values, const OpTensors& tensors)
      : values_(std::move(values)), y_(tensors.outputs.at(0)) {}

  void forward(Stream& /*stream*/) override {
    const auto size = static_cast<std::size_t>(y_.shape.elements_per_sample());
    parallel_items(static_cast<std::size_t>(y_.shape[0]), size, elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t sample = first; sample < last; ++sample) {
                       write_sample(sample_of(y_, static_cast<std::int64_t>(sample)), size);
                     }
                   });
  }
  void backward(Stream& /*stream*/) override {}

 private:
  void write_sample(ElementPointer y, std::size_t size) const {
    if (values_->size() == size) return write_floats(values_->data(), size, y);
    with_float_type(y.type(), [&]<typename T>(std::type_identity<T>) {
      std::fill_n(y.as<T>(), size, stored_as<T>(values_->front()));
    });
  }

  std::shared_ptr<const std::vector<float>> values_;
  Tensor y_;
};

class ConstantDefinition final : public OpDefinition {
 public:
  explicit ConstantDefinition(std::vector<float> values)
      : values_(std::make_shared<const std::vector<float>>(std::move(values))) {}
  std::string_view type() const override { return "constant"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<ConstantCpu>(values_, tensors); },
        [&] { return make_constant_cuda(*values_, context, tensors); });
  }

 private:
  std::shared_ptr<const std::vector<float>> values_;
};

/// Errors: failed (an extent is not positive; the product of the extents overflows; the number of values is neither 1
/// nor this product).
void check_count(const std::string& name, const ConstantParams& params) {
  std::int64_t count = 1;
  for (const std::int64_t extent : params.shape) {
    if (extent <= 0 || __builtin_mul_overflow(count, extent, &count)) {
      fail(ExitCode::failed, "constant {}: the extents are not positive, or too large", name);
    }
  }
  const std::size_t values = params.values.size();
  if (values != 1 && values != static_cast<std::size_t>(count)) {
    fail(ExitCode::failed, "constant {}: there are {} values for {} elements", name, values, count);
  }
}

class VariableCpu final : public Op {
 public:
  explicit VariableCpu(const OpTensors& tensors) : tensors_(tensors) {}

  void forward(Stream& /*stream*/) override {
    const Tensor& y = tensors_.outputs.at(0);
    const std::span<const float> w = tensors_.parameters.at(0).floats();
    parallel_items(static_cast<std::size_t>(y.shape[0]), w.size(), elementwise_grain,
                   [&](std::size_t first, std::size_t last) {
                     for (std::size_t sample = first; sample < last; ++sample) {
                       write_floats(w.data(), w.size(), sample_of(y, static_cast<std::int64_t>(sample)));
                     }
                   });
  }

  void backward(Stream& /*stream*/) override {
    const Tensor &dw = tensors_.parameter_gradients.at(0), &dy = tensors_.output_gradients.at(0);
    if (!dw) return;
    const std::int64_t batch = dy.shape[0], size = dw.shape.element_count();
    with_float_type(dy.type, [&]<typename T>(std::type_identity<T>) {
      const VariableBackward<T> kernel{static_cast<const T*>(dy.data), size, batch, dw.floats().data()};
      parallel_items(static_cast<std::size_t>(size), static_cast<std::size_t>(batch), elementwise_grain,
                     [&](std::size_t first, std::size_t last) {
                       for (std::size_t i = first; i < last; ++i) kernel(static_cast<std::int64_t>(i));
                     });
    });
  }

 private:
  OpTensors tensors_;
};

class VariableDefinition final : public OpDefinition {
 public:
  std::string_view type() const override { return "variable"; }
  BackwardNeeds backward_needs() const override { return {}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    return on_device(
        context, [&] { return std::make_unique<VariableCpu>(tensors); }, [&] { return make_variable_cuda(tensors); });
  }
};

}  // namespace

const OpType constant_op{
    .name = "constant",
    .input_count = 0,
    .build = [](Graph& graph, const std::string& name, std::span<const Value>, const Attributes& attributes) {
      return outputs_of(constant(graph, name, params_of<ConstantParams>(attributes)));
    }};

Value constant(Graph& graph, const std::string& name, const ConstantParams& params) {
  check_count(name, params);
  std::vector<std::int64_t> extents = params.shape;
  extents.insert(extents.begin(), graph.batch_size());
  return graph.add_op({.name = name,
                       .definition = std::make_shared<ConstantDefinition>(params.values),
                       .inputs = {},
                       .traits = {.samples_are_independent = true},
                       .type = &constant_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

const OpType variable_op{.name = "variable",
                         .input_count = 0,
                         .build = [](Graph& graph, const std::string& name, std::span<const Value> /*inputs*/,
                                     const Attributes& attributes) {
                           return outputs_of(variable(graph, name, params_of<VariableParams>(attributes)));
                         }};

Value variable(Graph& graph, const std::string& name, const VariableParams& params) {
  const auto is_positive = [](std::int64_t extent) { return extent > 0 && extent <= max_attribute; };
  if (params.shape.empty() || !std::ranges::all_of(params.shape, is_positive)) {
    fail(ExitCode::failed, "variable {}: the shape {} has no extent, or one that is not positive", name,
         Shape(params.shape).text());
  }
  const int values = graph.add_parameter({.name = name + "/values",
                                          .shape = Shape(params.shape),
                                          .initializer = params.values,
                                          .trains = params.trains,
                                          .is_embedding = true});
  std::vector<std::int64_t> extents{graph.batch_size()};
  extents.insert(extents.end(), params.shape.begin(), params.shape.end());
  return graph.add_op({.name = name,
                       .definition = std::make_shared<VariableDefinition>(),
                       .inputs = {},
                       .parameters = {values},
                       .type = &variable_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
