// matmul on a GPU: batches of matrix products of cuBLASLt.
#include <optional>

#include "kernels/matmul/matmul.h"
#include "kernels/shared/matrix_product_cuda.h"

namespace carillon {
namespace {

MatrixOperand operand_of(const MatmulOperand& operand) {
  const std::int64_t size = operand.rows * operand.columns;
  return {.tensor = &operand.tensor,
          .matrix = {operand.rows, operand.columns, operand.transposed},
          .batch_stride = size,
          .address_step = static_cast<std::size_t>(size) * size_of(operand.tensor.type)};
}

MatrixProductCuda product_of(const OpContext& context, const MatmulProduct& product) {
  return {as_cuda(*context.device), context.arithmetic, operand_of(product.a), operand_of(product.b),
          operand_of(product.c),    {product.count},    MatrixFactors{}};
}

class MatmulCuda final : public Op {
 public:
  MatmulCuda(const MatmulProducts& products, const OpContext& context) : y_(product_of(context, products.y)) {
    if (products.da.c.tensor) da_.emplace(product_of(context, products.da));
    if (products.db.c.tensor) db_.emplace(product_of(context, products.db));
  }

  void forward(Stream& stream) override { y_.run(stream); }
  void backward(Stream& stream) override {
    if (da_) da_->run(stream);
    if (db_) db_->run(stream);
  }

 private:
  MatrixProductCuda y_;
  std::optional<MatrixProductCuda> da_, db_;
};

}  // namespace

std::unique_ptr<Op> make_matmul_cuda(const MatmulProducts& products, const OpContext& context) {
  return std::make_unique<MatmulCuda>(products, context);
}

}  // namespace carillon
