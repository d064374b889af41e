// The definition of matmul, and the op on a CPU, which uses oneDNN's matrix products in float32. bf16 operands are
// converted to float32, so that every processor can multiply them.
#include "kernels/matmul/matmul.h"

#include <dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "carillon/core/error.h"
#include "carillon/core/parallel.h"
#include "kernels/shared/backend.h"
#include "kernels/shared/onednn.h"
#include "kernels/shared/rows_cpu.h"
#include "src/device/cpu_device.h"

namespace carillon {
namespace {

using dnnl::memory;

/// An operand in float32: the tensor itself, or a copy.
class FloatOperand {
 public:
  FloatOperand(CpuDevice& device, const MatmulOperand& operand, std::int64_t count)
      : operand_(operand),
        count_(static_cast<std::size_t>(count * operand.rows * operand.columns)),
        desc_({count, operand.rows, operand.columns}, memory::data_type::f32,
              operand.transposed ? memory::format_tag::acb : memory::format_tag::abc) {
    if (operand.tensor.type == DType::bf16) copy_ = device.allocate(count_ * sizeof(float));
    memory_ = memory(desc_, device.engine(), copy_.data() != nullptr ? copy_.data() : operand.tensor.data);
  }

  const memory::desc& desc() const { return desc_; }
  const memory& floats() const { return memory_; }
  void read() const {
    for_parts([](ElementPointer own, float* copy, std::size_t count) { read_floats(own, count, copy); });
  }
  void write() const {
    for_parts([](ElementPointer own, const float* copy, std::size_t count) { write_floats(copy, count, own); });
  }

 private:
  template <typename Body>
  void for_parts(const Body& body) const {
    if (copy_.data() == nullptr) return;
    parallel_ranges(count_, elementwise_grain, [&](std::size_t begin, std::size_t end) {
      body(ElementPointer(operand_.tensor) + begin, static_cast<float*>(copy_.data()) + begin, end - begin);
    });
  }

  MatmulOperand operand_;
  std::size_t count_;
  memory::desc desc_;
  Buffer copy_;  ///< float32 copy of a bf16 tensor
  memory memory_;
};

class ProductCpu {
 public:
  ProductCpu(CpuDevice& device, const MatmulProduct& product)
      : stream_(device.dnnl_stream()),
        a_(device, product.a, product.count),
        b_(device, product.b, product.count),
        c_(device, product.c, product.count),
        primitive_(onednn_matmul(device.engine(), a_.desc(), b_.desc(), {}, c_.desc())),
        arguments_{{DNNL_ARG_SRC, a_.floats()}, {DNNL_ARG_WEIGHTS, b_.floats()}, {DNNL_ARG_DST, c_.floats()}} {}

  void run() const {
    a_.read();
    b_.read();
    primitive_.execute(stream_, arguments_);
    c_.write();
  }

 private:
  dnnl::stream stream_;
  FloatOperand a_, b_, c_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

class MatmulCpu final : public Op {
 public:
  MatmulCpu(const MatmulProducts& products, CpuDevice& device) : y_(device, products.y) {
    if (products.da.c.tensor) da_.emplace(device, products.da);
    if (products.db.c.tensor) db_.emplace(device, products.db);
  }

  void forward(Stream& /*stream*/) override { y_.run(); }
  void backward(Stream& /*stream*/) override {
    if (da_) da_->run();
    if (db_) db_->run();
  }

 private:
  ProductCpu y_;
  std::optional<ProductCpu> da_, db_;
};

class MatmulDefinition final : public OpDefinition {
 public:
  explicit MatmulDefinition(const MatmulParams& params) : params_(params) {}
  std::string_view type() const override { return "matmul"; }
  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  std::unique_ptr<Op> instantiate(const OpContext& context, const OpTensors& tensors) const override {
    const MatmulProducts products = matmul_products(params_, tensors);
    return on_device(
        context, [&] { return std::make_unique<MatmulCpu>(products, as_cpu(*context.device)); },
        [&] { return make_matmul_cuda(products, context); });
  }

 private:
  MatmulParams params_;
};

std::int64_t from_end(const Shape& shape, std::size_t axis) { return shape[shape.rank() - axis]; }

MatmulOperand transposed(MatmulOperand operand) {
  return {operand.tensor, operand.columns, operand.rows, !operand.transposed};
}

/// Returns the product c = a b that computes a gradient. If the memory of c is transposed, the product computes the
/// transpose, b^T a^T.
MatmulProduct gradient_product(const MatmulOperand& a, const MatmulOperand& b, const MatmulOperand& c,
                               std::int64_t count) {
  if (!c.transposed) return {a, b, c, count};
  return {transposed(b), transposed(a), transposed(c), count};
}

}  // namespace

MatmulProducts matmul_products(const MatmulParams& params, const OpTensors& tensors) {
  const Tensor &a = tensors.inputs.at(0), &b = tensors.inputs.at(1), &y = tensors.outputs.at(0);
  const std::int64_t m = from_end(y.shape, 2), n = from_end(y.shape, 1);
  const std::int64_t k = from_end(a.shape, params.transpose_a ? 2 : 1), count = y.shape.element_count() / (m * n);
  const MatmulOperand left{a, m, k, params.transpose_a}, right{b, k, n, params.transpose_b};
  MatmulProducts products{.y = {left, right, {y, m, n}, count}, .da = {}, .db = {}};
  if (tensors.input_gradients.empty()) return products;
  const MatmulOperand dy{tensors.output_gradients.at(0), m, n};
  const MatmulOperand da{tensors.input_gradients.at(0), m, k, params.transpose_a};
  const MatmulOperand db{tensors.input_gradients.at(1), k, n, params.transpose_b};
  products.da = gradient_product(dy, transposed(right), da, count);
  products.db = gradient_product(transposed(left), dy, db, count);
  return products;
}

const OpType matmul_op{
    .name = "matmul",
    .input_count = 2,
    .build = [](Graph& graph, const std::string& name, std::span<const Value> inputs, const Attributes& attributes) {
      return outputs_of(matmul(graph, name, inputs[0], inputs[1], params_of<MatmulParams>(attributes)));
    }};

Value matmul(Graph& graph, const std::string& name, Value a, Value b, const MatmulParams& params) {
  const Shape of_a = graph.shape(a), of_b = graph.shape(b);
  std::vector<std::int64_t> extents = of_a.extents(), others = of_b.extents();
  const std::size_t rank = extents.size();
  bool fits = rank >= 3 && others.size() == rank;
  if (fits) {
    fits = from_end(of_a, params.transpose_a ? 2 : 1) == from_end(of_b, params.transpose_b ? 1 : 2);
    extents[rank - 2] = others[rank - 2] = from_end(of_a, params.transpose_a ? 1 : 2);
    extents[rank - 1] = others[rank - 1] = from_end(of_b, params.transpose_b ? 2 : 1);
    fits = fits && extents == others;
  }
  if (!fits) {
    fail(ExitCode::failed, "matmul {}: the shapes {}{} and {}{} do not match", name, of_a.text(),
         params.transpose_a ? " (transposed)" : "", of_b.text(), params.transpose_b ? " (transposed)" : "");
  }
  return graph.add_op({.name = name,
                       .definition = std::make_shared<MatmulDefinition>(params),
                       .inputs = {a, b},
                       .type = &matmul_op,
                       .attributes = attributes_of(params)},
                      Shape(std::move(extents)));
}

}  // namespace carillon
