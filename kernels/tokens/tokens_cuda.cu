// Tokens on a GPU.
#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/tokens/tokens.h"
#include "kernels/tokens/tokens_kernels.h"

namespace carillon {
namespace {

template <typename Element>
void launch_each(const Element& element, const Tensor& of, Stream& stream) {
  launch(ForEachElement{element, of.shape.element_count()}, stream);
}

class EmbedTokensCuda final : public Op {
 public:
  explicit EmbedTokensCuda(const OpTensors& tensors)
      : x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        class_(tensors.parameters.at(0)),
        positions_(tensors.parameters.at(1)),
        size_(y_.shape.elements_per_sample()),
        channels_(y_.shape[2]) {
    if (tensors.parameter_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
    dclass_ = tensors.parameter_gradients.at(0);
    dpositions_ = tensors.parameter_gradients.at(1);
  }

  void forward(Stream& stream) override {
    with_float_type(y_.type, [&]<typename T>(std::type_identity<T>) {
      launch_each(EmbedTokensForward<T>{static_cast<const T*>(x_.data), class_.floats().data(),
                                        positions_.floats().data(), static_cast<T*>(y_.data), size_, channels_},
                  y_, stream);
    });
  }
  void backward(Stream& stream) override {
    with_float_type(y_.type, [&]<typename T>(std::type_identity<T>) {
      const T* const dy = static_cast<const T*>(dy_.data);
      if (dclass_ || dpositions_) {
        launch_each(EmbedTokensSums<T>{dy, static_cast<float*>(dclass_.data), static_cast<float*>(dpositions_.data),
                                       y_.shape[0], size_, channels_},
                    positions_, stream);
      }
      if (dx_) launch_each(EmbedTokensBackward<T>{dy, static_cast<T*>(dx_.data), size_, channels_}, dx_, stream);
    });
  }

 private:
  Tensor x_, y_, class_, positions_, dx_, dy_, dclass_, dpositions_;
  std::int64_t size_, channels_;
};

class FirstTokenCuda final : public Op {
 public:
  explicit FirstTokenCuda(const OpTensors& tensors)
      : x_(tensors.inputs.at(0)),
        y_(tensors.outputs.at(0)),
        size_(x_.shape.elements_per_sample()),
        channels_(x_.shape[2]) {
    if (tensors.input_gradients.empty()) return;
    dx_ = tensors.input_gradients.at(0);
    dy_ = tensors.output_gradients.at(0);
  }

  void forward(Stream& stream) override {
    with_float_type(y_.type, [&]<typename T>(std::type_identity<T>) {
      launch_each(FirstTokenForward<T>{static_cast<const T*>(x_.data), static_cast<T*>(y_.data), size_, channels_}, y_,
                  stream);
    });
  }
  void backward(Stream& stream) override {
    if (!dx_) return;
    with_float_type(y_.type, [&]<typename T>(std::type_identity<T>) {
      launch_each(FirstTokenBackward<T>{static_cast<const T*>(dy_.data), static_cast<T*>(dx_.data), size_, channels_},
                  dx_, stream);
    });
  }

 private:
  Tensor x_, y_, dx_, dy_;
  std::int64_t size_, channels_;
};

}  // namespace

std::unique_ptr<Op> make_embed_tokens_cuda(const OpTensors& tensors) {
  return std::make_unique<EmbedTokensCuda>(tensors);
}

std::unique_ptr<Op> make_first_token_cuda(const OpTensors& tensors) {
  return std::make_unique<FirstTokenCuda>(tensors);
}

}  // namespace carillon
