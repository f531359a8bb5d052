// What CUTLASS's C++ headers say of SM100's instructions: one JSON object a line, on the host, no GPU needed.
//
//   nvcc -std=c++17 -DNDEBUG -O0 -arch=sm_100a -I CUTLASS/include cutlass_headers.cu -o headers
//   ./headers | grep "^{"     the facts of tests/data/cutlass_headers.json, which also says of which commit

#include <cstdio>

#include <cute/tensor.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm100.hpp>

using namespace cute;

template <class Layout>
void field(char const* name, Layout const& layout) {
  printf(", \"%s\": \"", name);
  print(layout);
  printf("\"");
}

template <class Op>
void copy(char const* name) {
  using Traits = Copy_Traits<Op>;
  printf("{\"kind\": \"copy\", \"name\": \"%s\"", name);
  field("val", typename Traits::ValID{});
  field("src", typename Traits::SrcLayout{});
  field("dst", typename Traits::DstLayout{});
  printf("}\n");
}

template <class Fragment, class Shape>
void fragment(char const* kind, int m, int n, int group, int bits, Shape const& shape) {
  printf("{\"kind\": \"%s\", \"m\": %d, \"n\": %d, \"cta_group\": %d, \"bits\": %d", kind, m, n, group, bits);
  field("layout", make_tensor<Fragment>(shape).layout());
  printf("}\n");
}

template <int M, int N>
void weight_stationary() {
  auto one = make_shape(Shape<Int<M>, Int<N>>{}, _1{}, _1{});
  fragment<UMMA::tmem_frg_ws_1sm<float>>("ws", M, N, 1, 32, one);
  fragment<UMMA::tmem_frg_ws_1sm<half_t>>("ws", M, N, 1, 16, one);
  if constexpr (N < 256) {
    fragment<UMMA::tmem_frg_ws_1sm<float>>("ws_tiled", M, N, 1, 32, make_shape(Shape<Int<M>, Int<N>>{}, _2{}, _2{}));
  }
}

template <int M, int N>
void accumulators() {
  auto one = make_shape(Shape<Int<M>, Int<N>>{}, _1{}, _1{});
  fragment<UMMA::tmem_frg_1sm<float>>("d", M, N, 1, 32, one);
  fragment<UMMA::tmem_frg_1sm<half_t>>("d", M, N, 1, 16, one);
  fragment<UMMA::tmem_frg_2sm<float>>("d", 2 * M, N, 2, 32, one);
  fragment<UMMA::tmem_frg_2sm<half_t>>("d", 2 * M, N, 2, 16, one);
}

template <class T, int M>
void operand() {
  constexpr int bits = sizeof_bits_v<T>;
  auto one = make_shape(Shape<Int<M>, Int<256 / bits>>{}, _1{}, _4{});
  fragment<UMMA::tmem_frg_1sm<T, T, UMMA::TmemAllocMode::NonInterleaved>>("a", M, 256 / bits, 1, bits, one);
  fragment<UMMA::tmem_frg_2sm<T, T, UMMA::TmemAllocMode::Duplicated>>("a", 2 * M, 256 / bits, 2, bits, one);
}

template <UMMA::Major major, class T, class Atom, int Rows, int Ks, class Order>
void descriptor(char const* atom_name, char const* type, Order order) {
  auto layout = tile_to_shape(Atom{}, Shape<Int<Rows>, Int<Ks>>{}, order);
  auto tensor = make_tensor(make_smem_ptr(static_cast<T*>(nullptr)), layout);
  constexpr int k = 256 / sizeof_bits_v<T>;
  auto first = local_tile(tensor, Shape<Int<Rows>, Int<k>>{}, make_coord(0, 0));
  auto desc = UMMA::make_umma_desc<major>(first);
  printf("\n{\"kind\": \"descriptor\", \"atom\": \"%s\", \"type\": \"%s\", \"bits\": %d, \"rows\": %d, \"ks\": %d", atom_name,
         type, int(sizeof_bits_v<T>), Rows, Ks);
  field("layout", layout);
  printf(", \"word\": \"%#llx\"}\n", static_cast<unsigned long long>(uint64_t(desc)));
}

#define TRANSFER(shape, n)                                                              \
  copy<SM100::TMEM::LOAD::SM100_TMEM_LOAD_##shape##n##x>("ld." #shape "." #n);          \
  copy<SM100::TMEM::LOAD::SM100_TMEM_LOAD_##shape##n##x_16b>("ld." #shape "." #n ".packed"); \
  copy<SM100::TMEM::STORE::SM100_TMEM_STORE_##shape##n##x>("st." #shape "." #n);        \
  copy<SM100::TMEM::STORE::SM100_TMEM_STORE_##shape##n##x_16b>("st." #shape "." #n ".packed");
#define UP_TO_32(shape) \
  TRANSFER(shape, 1) TRANSFER(shape, 2) TRANSFER(shape, 4) TRANSFER(shape, 8) TRANSFER(shape, 16) TRANSFER(shape, 32)
#define CP(name) copy<SM100::TMEM::UTCCP::SM100_UTCCP_##name##_1cta>("cp." #name);

// Each atom K- or MN-major, in both orders of tiling, so that either stride is the larger.
template <UMMA::Major major, class T, class Atom, int Rows, int Ks>
void both_orders(char const* atom_name, char const* type) {
  descriptor<major, T, Atom, Rows, Ks>(atom_name, type, Step<_1, _2>{});
  descriptor<major, T, Atom, Rows, Ks>(atom_name, type, Step<_2, _1>{});
}

template <class T, int Wide>
void descriptors(char const* type) {
  constexpr auto K = UMMA::Major::K, MN = UMMA::Major::MN;
  constexpr int rows = 256, ks = Wide;
  both_orders<K, T, UMMA::Layout_K_INTER_Atom<T>, rows, ks>("K_INTER", type);
  both_orders<K, T, UMMA::Layout_K_SW32_Atom<T>, rows, ks>("K_SW32", type);
  both_orders<K, T, UMMA::Layout_K_SW64_Atom<T>, rows, ks>("K_SW64", type);
  both_orders<K, T, UMMA::Layout_K_SW128_Atom<T>, rows, ks>("K_SW128", type);
  if constexpr (sizeof_bits_v<T> >= 8) {
    both_orders<MN, T, UMMA::Layout_MN_INTER_Atom<T>, rows, ks>("MN_INTER", type);
    both_orders<MN, T, UMMA::Layout_MN_SW32_Atom<T>, rows, ks>("MN_SW32", type);
    both_orders<MN, T, UMMA::Layout_MN_SW64_Atom<T>, rows, ks>("MN_SW64", type);
    both_orders<MN, T, UMMA::Layout_MN_SW128_Atom<T>, rows, ks>("MN_SW128", type);
  }
  if constexpr (sizeof_bits_v<T> == 32) {
    both_orders<MN, T, UMMA::Layout_MN_SW128_32B_Atom<T>, rows, ks>("MN_SW128_32B", type);
  }
}

int main() {
  UP_TO_32(32dp32b) TRANSFER(32dp32b, 64) TRANSFER(32dp32b, 128)
  UP_TO_32(16dp64b) TRANSFER(16dp64b, 64) TRANSFER(16dp64b, 128)
  UP_TO_32(16dp128b) TRANSFER(16dp128b, 64)
  UP_TO_32(16dp256b)
  UP_TO_32(16dp32b) TRANSFER(16dp32b, 64) TRANSFER(16dp32b, 128)
  CP(128dp256bit) CP(128dp128bit) CP(4dp256bit) CP(4x32dp128bit) CP(2x64dp128bitlw0213) CP(2x64dp128bitlw0123)
  weight_stationary<32, 64>();
  weight_stationary<32, 128>();
  weight_stationary<32, 256>();
  weight_stationary<64, 64>();
  weight_stationary<64, 128>();
  weight_stationary<64, 256>();
  weight_stationary<128, 64>();
  weight_stationary<128, 128>();
  weight_stationary<128, 256>();
  accumulators<64, 32>();
  accumulators<64, 96>();
  accumulators<64, 128>();
  accumulators<64, 256>();
  accumulators<128, 32>();
  accumulators<128, 96>();
  accumulators<128, 128>();
  accumulators<128, 256>();
  operand<half_t, 64>();
  operand<half_t, 128>();
  operand<tfloat32_t, 64>();
  operand<tfloat32_t, 128>();
  operand<float_e4m3_t, 64>();
  operand<float_e4m3_t, 128>();
  descriptors<float, 64>("f32");
  descriptors<half_t, 128>("f16");
  descriptors<float_e4m3_t, 256>("f8");
  descriptors<float_e2m1_t, 512>("f4");
  // kind::f8f6f4 with 4 or 6 bits: its shared memory is allocated as that of bytes (ElementAMma_SmemAllocType).
  descriptors<uint8_t, 256>("padded");
}
