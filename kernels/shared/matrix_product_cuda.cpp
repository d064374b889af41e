#include "kernels/shared/matrix_product_cuda.h"

#include <algorithm>
#include <bit>

#include "carillon/core/error.h"

namespace carillon {
namespace {

using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t type_of(const Tensor& tensor) {
  check(tensor.type != DType::u8, "a matrix product requires f32 or bf16");
  return tensor.type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// Products of bf16 values are exact in float32, so there is a choice only for float32 inputs.
cublasComputeType_t compute_type(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> make_description(Arithmetic arithmetic, const Tensor& input) {
  const bool narrow = input.type == DType::bf16;
  cublasLtMatmulDesc_t description = nullptr;
  check_cublas(
      cublasLtMatmulDescCreate(&description, narrow ? CUBLAS_COMPUTE_32F : compute_type(arithmetic), CUDA_R_32F));
  return Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>(description);
}

Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> make_layout(const MatrixOperand& operand,
                                                                        std::int64_t batch) {
  const ColumnMajorMatrix matrix = column_major(operand.matrix);
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&layout, type_of(*operand.tensor), static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.columns), matrix.leading_dimension));
  Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> made(layout);
  if (batch == 1) return made;
  const auto count = static_cast<std::int32_t>(batch);
  check_cublas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  check_cublas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &operand.batch_stride, sizeof(operand.batch_stride)));
  return made;
}

template <typename T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)));
}

template <typename T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
}

cublasOperation_t operation(const MatrixOperand& operand) {
  return column_major(operand.matrix).transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// Returns the largest power of two, at most 256, that divides every address of the operand and the address `other`.
std::uint32_t alignment_of(const MatrixOperand& operand, const void* other = nullptr) {
  const auto bits = reinterpret_cast<std::uintptr_t>(operand.tensor->data) | reinterpret_cast<std::uintptr_t>(other) |
                    operand.address_step;
  return bits == 0 ? 256u : std::min(256u, 1u << std::min(std::countr_zero(bits), 8));
}

Preference make_preference(std::size_t workspace_bytes, Arithmetic arithmetic) {
  cublasLtMatmulPreference_t made = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  // The mask allows the reduction scheme COMPUTE_TYPE, and also sums that are not divided. Other schemes keep partial
  // sums in the result's type (bf16) or add in place.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  if (arithmetic == Arithmetic::fp32) {
    set(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, ~std::uint64_t{CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK});
  }
  return preference;
}

}  // namespace

MatrixProductCuda::MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a,
                                     const MatrixOperand& b, const MatrixOperand& c, const MatrixBatch& batch,
                                     const MatrixEpilogue& epilogue)
    : device_(&device),
      description_(make_description(arithmetic, *a.tensor)),
      left_layout_(make_layout(b, batch.count)),
      right_layout_(make_layout(a, batch.count)),
      result_layout_(make_layout(c, batch.count)),
      memory_{a.tensor->data, b.tensor->data, c.tensor->data},
      workspace_bytes_(batch.workspace_bytes > 0 ? batch.workspace_bytes : device.workspace().size()) {
  check(a.matrix.columns == b.matrix.rows && c.matrix.rows == a.matrix.rows && c.matrix.columns == b.matrix.columns &&
            !c.matrix.transposed,
        "the extents of a matrix product do not match");
  set(description_.get(), CUBLASLT_MATMUL_DESC_TRANSA, operation(b));
  set(description_.get(), CUBLASLT_MATMUL_DESC_TRANSB, operation(a));
  if (epilogue.bias != nullptr || epilogue.b_sums != nullptr) set_epilogue(epilogue);
  if (epilogue.addend != nullptr) {
    factors_.beta = 1.0f;
    memory_.s = epilogue.addend->data;
  }
}

void MatrixProductCuda::set_epilogue(const MatrixEpilogue& epilogue) {
  if (epilogue.b_sums != nullptr) {  // B is cuBLASLt's left operand
    set(description_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADA);
    set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(*epilogue.b_sums));
    set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.b_sums->data);
    return;
  }
  // cuBLASLt adds the bias along the rows of the column-major result. These rows are the columns of C. The bias has the
  // same type as the result.
  set(description_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE,
      epilogue.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
  set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(epilogue.bias->data));
}

bool MatrixProductCuda::choose_algorithm(Arithmetic arithmetic, const MatrixOperand& a, const MatrixOperand& b,
                                         const MatrixOperand& c) {
  const Preference preference = make_preference(workspace_bytes_, arithmetic);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(c, memory_.s));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(c));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(device_->cublas(), description_.get(), left_layout_.get(), right_layout_.get(),
                                     result_layout_.get(), result_layout_.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(status);
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
  algorithm_ = found.algo;
  return true;
}

MatrixProductCuda::MatrixProductCuda(CudaDevice& device, Arithmetic arithmetic, const MatrixOperand& a,
                                     const MatrixOperand& b, const MatrixOperand& c, const MatrixBatch& batch,
                                     const MatrixFactors& factors)
    : MatrixProductCuda(device, arithmetic, a, b, c, batch, MatrixEpilogue{}) {
  factors_ = factors;
  if (choose_algorithm(arithmetic, a, b, c)) return;
  fail(ExitCode::failed, "cuBLASLt has no algorithm for a matrix product [{}, {}] = [{}, {}] [{}, {}] in {}",
       c.matrix.rows, c.matrix.columns, a.matrix.rows, a.matrix.columns, b.matrix.rows, b.matrix.columns,
       a.tensor->type == DType::bf16 ? "bf16" : "f32");
}

std::optional<MatrixProductCuda> MatrixProductCuda::with_epilogue(CudaDevice& device, Arithmetic arithmetic,
                                                                  const MatrixOperand& a, const MatrixOperand& b,
                                                                  const MatrixOperand& c,
                                                                  const MatrixEpilogue& epilogue) {
  std::optional<MatrixProductCuda> product(MatrixProductCuda(device, arithmetic, a, b, c, MatrixBatch{}, epilogue));
  if (!product->choose_algorithm(arithmetic, a, b, c)) product.reset();
  return product;
}

int MatrixProductCuda::splits() const {
  std::int32_t count = 0;
  std::size_t written = 0;
  check_cublas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &count, sizeof(count),
                                                    &written));
  return count;
}

void MatrixProductCuda::run(Stream& stream, const MatrixAddresses& memory) const {
  check(as_cuda(stream).get() == device_->compute_stream().get(),
        "matrix products must run on the compute stream, which owns their workspace");
  check((factors_.beta == 0.0f) == (memory.s == nullptr), "a matrix product has a matrix to add if beta is not 0");
  const void* const added = memory.s == nullptr ? memory.c : memory.s;
  // The library reads alpha and beta before the call returns.
  check_cublas(cublasLtMatmul(device_->cublas(), description_.get(), &factors_.alpha, memory.b, left_layout_.get(),
                              memory.a, right_layout_.get(), &factors_.beta, added, result_layout_.get(), memory.c,
                              result_layout_.get(), &algorithm_, device_->workspace().data(), workspace_bytes_,
                              as_cuda(stream).get()));
}

}  // namespace carillon
