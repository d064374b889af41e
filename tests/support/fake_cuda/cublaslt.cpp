// The fake's cuBLASLt. It checks whether the descriptors of a call fit together. Misuse ends the process.
#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "matrix_product.h"
#include "memory.h"
#include "objects.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::optional<cudaDataType_t> bias_type;  ///< nullopt: the same as D
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, leading_dimension;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = 7;                         ///< 7 means all schemes
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};  ///< the alignments of A, B, C, D
};

namespace fake_cuda {
namespace {

constexpr std::size_t workspace_of_an_algorithm = 4096;

template <typename T>
cublasStatus_t create(T** object, T value = {}) {
  const Guard guard(api_mutex());
  ++library_objects();
  *object = new T(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t destroy(T* object) {
  const Guard guard(api_mutex());
  --library_objects();
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t assign(T& member, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) misuse("a cuBLASLt attribute of another size");
  std::memcpy(&member, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Matrix matrix(const cublasLtMatrixLayoutOpaque_t& layout, const void* data, cublasOperation_t operation) {
  return {.data = data,
          .type = layout.type,
          .rows = layout.rows,
          .columns = layout.columns,
          .leading_dimension = layout.leading_dimension,
          .transposed = operation == CUBLAS_OP_T,
          .batch_count = layout.batch_count,
          .batch_stride = layout.batch_stride};
}

Product describe(const cublasLtMatmulDescOpaque_t& description, const cublasLtMatrixLayoutOpaque_t& a,
                 const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  Product product{.a = matrix(a, nullptr, description.transpose_a),
                  .b = matrix(b, nullptr, description.transpose_b),
                  .c = matrix(d, nullptr, CUBLAS_OP_N),
                  .d = matrix(d, nullptr, CUBLAS_OP_N),
                  .tf32 = description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F,
                  .relu = (description.epilogue & CUBLASLT_EPILOGUE_RELU) != 0};
  if ((description.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
    product.bias = description.bias;
    product.bias_type = description.bias_type.value_or(d.type);
    if (product.bias == nullptr) misuse("an epilogue with a bias without a pointer to it");
  }
  if (description.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    product.bias_gradient = description.bias;
    product.bias_type = description.bias_type.value_or(d.type);
    if (product.bias_gradient == nullptr) misuse("an epilogue with a bias gradient without a pointer to it");
  }
  return product;
}

void check_extents(const Product& product) {
  for (const Matrix& one : {product.a, product.b, product.d}) {
    if (one.rows < 1 || one.columns < 1 || one.leading_dimension < one.rows) {
      misuse(
          fmt::format("a matrix of {} by {} with leading dimension {}", one.rows, one.columns, one.leading_dimension));
    }
  }
  if (product.a.batch_count != product.d.batch_count || product.b.batch_count != product.d.batch_count) {
    misuse("a batch whose operands have different counts");
  }
  if (product.a.product_columns() != product.b.product_rows() || product.a.product_rows() != product.d.rows ||
      product.b.product_columns() != product.d.columns) {
    misuse(fmt::format("a product of {} by {} and {} by {} into {} by {}", product.a.product_rows(),
                       product.a.product_columns(), product.b.product_rows(), product.b.product_columns(),
                       product.d.rows, product.d.columns));
  }
}

/// Returns the number of parts into which the fake divides each sum over the columns of op(A). The real cuBLASLt also
/// divides some sums.
int splits_of(const Product& product) {
  constexpr std::int64_t fewest = 32;  // if op(A) has fewer columns, the fake does not divide the sums
  if (product.a.product_columns() < fewest) return 1;
  return product.bias_gradient == nullptr || settings().divided_bias_gradients ? 2 : 1;
}

/// Checks the types (source: cuBLAS, "cublasLtMatmul", table of types). A and B must have the same type, float32 or
/// bfloat16. D must be float32, or bfloat16 if A and B are bfloat16. A bias and a bias gradient must have the type of
/// D. CUBLASLT_EPILOGUE_BGRADA requires an A that is not transposed (source: the tests of nvmath-python).
bool is_supported(const Product& product) {
  const bool types =
      product.a.type == product.b.type && (product.d.type == CUDA_R_32F || product.a.type == CUDA_R_16BF);
  const bool bias = product.bias == nullptr || (settings().fused_biases && product.bias_type == product.d.type);
  const bool bias_gradient =
      product.bias_gradient == nullptr || (settings().fused_biases && product.bias_type == product.d.type &&
                                           !product.a.transposed && product.d.batch_count == 1);
  return types && bias && bias_gradient;
}

/// Returns a hash of all properties of `product` on which the choice of an algorithm depends. An algorithm stores the
/// hash of the product for which it was chosen. cublasLtMatmul calls misuse() if its product has a different hash than
/// its algorithm.
std::uint64_t form_of(const Product& product) {
  std::uint64_t hash =
      product.relu + 2u * (product.bias != nullptr) + 4u * product.tf32 + 8u * (product.bias_gradient != nullptr);
  for (const Matrix& one : {product.a, product.b, product.d}) {
    for (const std::int64_t value : {one.rows, one.columns, one.leading_dimension, std::int64_t{one.type},
                                     std::int64_t{one.transposed}, std::int64_t{one.batch_count}, one.batch_stride}) {
      hash = hash * 1000003 + static_cast<std::uint64_t>(value);
    }
  }
  return hash;
}

void check_operand(const void* data, std::size_t bytes, std::uint64_t alignment, const char* which) {
  if (place_of(data, bytes) != Place::device) misuse(fmt::format("{} is not in device memory", which));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    misuse(fmt::format("{} is not aligned to {} bytes as the algorithm was promised", which, alignment));
  }
}

bool are_equal(const cublasLtMatrixLayoutOpaque_t& a, const cublasLtMatrixLayoutOpaque_t& b) {
  return a.type == b.type && a.rows == b.rows && a.columns == b.columns && a.leading_dimension == b.leading_dimension &&
         a.batch_count == b.batch_count && a.batch_stride == b.batch_stride;
}

/// Checks C. C may be D, but no other input may share memory with D (cuBLAS, "cublasLtMatmul").
void check_addend(const Product& product, std::uint64_t alignment) {
  if (product.beta == 0.0f) return;
  check_operand(product.c.data, product.c.bytes(), alignment, "C");
  const auto* const result = static_cast<const std::byte*>(product.d.data);
  for (const Matrix& input : {product.a, product.b, product.c}) {
    const auto* const data = static_cast<const std::byte*>(input.data);
    const bool apart = data + input.bytes() <= result || result + product.d.bytes() <= data;
    if (!apart && data != product.c.data) misuse("an operand of a product in the memory of its result");
    if (!apart && data != result) misuse("C in a part of the memory of D");
  }
}

}  // namespace

int& library_objects() {
  static int count = 0;
  return count;
}

}  // namespace fake_cuda

using namespace fake_cuda;

const char* cublasLtGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return "CUBLAS_STATUS_SUCCESS";
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  return create(description, {.compute = compute});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) { return destroy(description); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(description->bias_type.emplace(), value, bytes);
  }
  misuse("a matmul attribute that is not faked");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading_dimension) {
  return create(layout, {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading_dimension});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return assign(layout->batch_count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return assign(layout->batch_stride, value, bytes);
  }
  misuse("a layout attribute that is not faked");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) { return create(preference); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  std::uint64_t implementations = 0;
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference->reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return assign(implementations, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(preference->alignment.at(name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), value, bytes);
  }
  misuse("a matmul preference that is not faked");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (wanted < 1 || c->type != d->type) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product = describe(*description, *a, *b, *d);
  check_extents(product);
  if ((preference->reduction_schemes & ~std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) != 0) {
    misuse("a product that may add parts of its sums in any order");
  }
  if (!is_supported(product) || preference->workspace_bytes < workspace_of_an_algorithm) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  results[0] = {.workspaceSize = workspace_of_an_algorithm, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1.0f};
  results[0].algo.data[0] = form_of(product);
  results[0].algo.data[5] = static_cast<std::uint64_t>(splits_of(product));
  for (std::size_t i = 0; i < preference->alignment.size(); ++i) results[0].algo.data[1 + i] = preference->alignment[i];
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  if (name != CUBLASLT_ALGO_CONFIG_SPLITK_NUM) misuse("an attribute of an algorithm that is not faked");
  *written = sizeof(std::int32_t);
  const auto splits = static_cast<std::int32_t>(algorithm->data[5]);
  if (bytes < sizeof(splits)) misuse("too little memory for an attribute of an algorithm");
  std::memcpy(value, &splits, sizeof(splits));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  const Guard guard(api_mutex());
  Product product = describe(*description, *a_layout, *b_layout, *d_layout);
  product.a.data = a;
  product.b.data = b;
  product.c.data = c;
  product.d.data = d;
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  check_extents(product);
  if (!are_equal(*c_layout, *d_layout)) misuse("a C with another layout than D's is not faked");
  if (algorithm == nullptr || algorithm->data[0] != form_of(product)) misuse("an algorithm for another product");
  check_operand(a, product.a.bytes(), algorithm->data[1], "A");
  check_operand(b, product.b.bytes(), algorithm->data[2], "B");
  check_operand(d, product.d.bytes(), algorithm->data[4], "D");
  check_addend(product, algorithm->data[3]);
  check_operand(workspace, workspace_of_an_algorithm, 256, "the workspace");
  if (workspace_bytes < workspace_of_an_algorithm) misuse("a workspace smaller than the algorithm asks for");
  if (const void* const vector = product.bias != nullptr ? product.bias : product.bias_gradient; vector != nullptr) {
    const std::size_t element = product.bias_type == CUDA_R_16BF ? sizeof(carillon::Bf16) : sizeof(float);
    check_operand(vector, static_cast<std::size_t>(product.d.rows) * element, 16, "the bias");
  }
  const cudaError_t status = enqueue_kernel(
      stream,
      [product, workspace] {
        std::memset(workspace, 0xff, workspace_of_an_algorithm);
        compute(product);
      },
      "cublaslt_product");
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
