// embed_tokens and first_token on a GPU.
#include <algorithm>

#include "kernels/shared/float_type.h"
#include "kernels/shared/launch.cuh"
#include "kernels/tokens/tokens.h"
#include "kernels/tokens/tokens_kernels.h"

namespace carillon {
namespace {

/// Calls body(type of the elements, elements per pack). A pack has up to `most` elements.
template <int most, typename Body>
void with_packs(DType type, std::int64_t channels, const Body& body) {
  with_float_type(type, [&]<typename T>(std::type_identity<T> element) {
    constexpr int largest = std::min(most, pack_bytes / static_cast<int>(sizeof(T)));
    with_pack_size<T, largest>(channels, [&](auto n) { body(element, n); });
  });
}

template <int n, typename Element>
void launch_each(const Element& element, const Tensor& of, Stream& stream) {
  launch(ForEachElement{element, of.shape.element_count() / n}, stream);
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
    with_packs<8>(y_.type, channels_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch_each<n>(EmbedTokensForward<T, n>{static_cast<const T*>(x_.data), class_.floats().data(),
                                              positions_.floats().data(), static_cast<T*>(y_.data), size_, channels_},
                     y_, stream);
    });
  }
  void backward(Stream& stream) override {
    if (dclass_ || dpositions_) {
      // Packs of 4, because a sample has few elements: smaller packs give more threads, which occupy more of the GPU.
      with_packs<4>(y_.type, channels_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
        launch_each<n>(EmbedTokensSums<T, n>{static_cast<const T*>(dy_.data), static_cast<float*>(dclass_.data),
                                             static_cast<float*>(dpositions_.data), y_.shape[0], size_, channels_},
                       positions_, stream);
      });
    }
    if (!dx_) return;
    with_packs<8>(y_.type, channels_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch_each<n>(
          EmbedTokensBackward<T, n>{static_cast<const T*>(dy_.data), static_cast<T*>(dx_.data), size_, channels_}, dx_,
          stream);
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
    with_packs<8>(y_.type, channels_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch_each<n>(
          FirstTokenForward<T, n>{static_cast<const T*>(x_.data), static_cast<T*>(y_.data), size_, channels_}, y_,
          stream);
    });
  }
  void backward(Stream& stream) override {
    if (!dx_) return;
    with_packs<8>(y_.type, channels_, [&]<typename T, int n>(std::type_identity<T>, std::integral_constant<int, n>) {
      launch_each<n>(
          FirstTokenBackward<T, n>{static_cast<const T*>(dy_.data), static_cast<T*>(dx_.data), size_, channels_}, dx_,
          stream);
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
