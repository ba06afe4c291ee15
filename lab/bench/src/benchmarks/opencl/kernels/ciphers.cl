// Hashes, ciphers and tricks with bits. Messages are of 16 words for each work-item.

kernel void fnv(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint hash = 2166136261u;
    for (int k = 0; k < 16; k++) {
        uint word = in[i * 16 + k];
        for (int byte = 0; byte < 4; byte++) {
            hash ^= word & 255;
            hash *= 16777619u;
            word >>= 8;
        }
    }
    out[i] = hash;
}

kernel void murmur(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint hash = (uint)i;
    for (int k = 0; k < 16; k++) {
        uint word = in[i * 16 + k] * 0xcc9e2d51u;
        hash ^= rotate(word, 15u) * 0x1b873593u;
        hash = rotate(hash, 13u) * 5 + 0xe6546b64u;
    }
    hash ^= 64;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    out[i] = hash ^ hash >> 16;
}

kernel void crc32_bits(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint rest = ~0u;
    for (int k = 0; k < 16; k++) {
        rest ^= in[i * 16 + k];
        for (int bit = 0; bit < 32; bit++)
            rest = rest & 1 ? rest >> 1 ^ 0xedb88320u : rest >> 1;
    }
    out[i] = ~rest;
}

// The table is made in local memory by the group.
kernel void crc32_table(global const uint *in, global uint *out) {
    local uint table[256];
    int l = get_local_id(0);
    uint entry = l;
    for (int bit = 0; bit < 8; bit++)
        entry = entry & 1 ? entry >> 1 ^ 0xedb88320u : entry >> 1;
    table[l] = entry;
    barrier(CLK_LOCAL_MEM_FENCE);
    size_t i = get_global_id(0);
    uint rest = ~0u;
    for (int k = 0; k < 16; k++) {
        uint word = in[i * 16 + k];
        for (int byte = 0; byte < 4; byte++) {
            rest = table[(rest ^ word) & 255] ^ rest >> 8;
            word >>= 8;
        }
    }
    out[i] = ~rest;
}

constant uint md5_sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
constant uint md5_turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

kernel void md5(global const uint *in, global uint4 *out) {
    size_t i = get_global_id(0);
    uint word[16];
    for (int k = 0; k < 16; k++)
        word[k] = in[i * 16 + k];
    uint a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
    for (int round = 0; round < 64; round++) {
        uint mixed, at;
        if (round < 16) {
            mixed = (b & c) | (~b & d);
            at = round;
        } else if (round < 32) {
            mixed = (d & b) | (~d & c);
            at = (5 * round + 1) & 15;
        } else if (round < 48) {
            mixed = b ^ c ^ d;
            at = (3 * round + 5) & 15;
        } else {
            mixed = c ^ (b | ~d);
            at = (7 * round) & 15;
        }
        mixed += a + md5_sines[round] + word[at];
        a = d;
        d = c;
        c = b;
        b += rotate(mixed, md5_turns[round / 16 * 4 + (round & 3)]);
    }
    out[i] = (uint4)(a + 0x67452301, b + 0xefcdab89, c + 0x98badcfe, d + 0x10325476);
}

constant uint sha_roots[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

kernel void sha256(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint w[16], state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int k = 0; k < 16; k++)
        w[k] = in[i * 16 + k];
    uint a = state[0], b = state[1], c = state[2], d = state[3];
    uint e = state[4], f = state[5], g = state[6], h = state[7];
    for (int round = 0; round < 64; round++) {
        uint word = w[round & 15];
        if (round >= 16) {
            uint near = w[(round + 1) & 15], far = w[(round + 14) & 15];
            word += (rotate(near, 25u) ^ rotate(near, 14u) ^ near >> 3) + w[(round + 9) & 15] +
                    (rotate(far, 15u) ^ rotate(far, 13u) ^ far >> 10);
            w[round & 15] = word;
        }
        uint first = h + (rotate(e, 26u) ^ rotate(e, 21u) ^ rotate(e, 7u)) + (g ^ (e & (f ^ g))) +
                     sha_roots[round] + word;
        uint second = (rotate(a, 30u) ^ rotate(a, 19u) ^ rotate(a, 10u)) + ((a & b) | (c & (a | b)));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    uint end[8] = {a, b, c, d, e, f, g, h};
    for (int k = 0; k < 8; k++)
        out[i * 8 + k] = state[k] + end[k];
}

#define QUARTER(a, b, c, d)                                                                        \
    s[a] += s[b]; s[d] = rotate(s[d] ^ s[a], 16u);                                                 \
    s[c] += s[d]; s[b] = rotate(s[b] ^ s[c], 12u);                                                 \
    s[a] += s[b]; s[d] = rotate(s[d] ^ s[a], 8u);                                                  \
    s[c] += s[d]; s[b] = rotate(s[b] ^ s[c], 7u);
kernel void chacha20(uint nonce, global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint first[16], s[16];
    first[0] = 0x61707865;
    first[1] = 0x3320646e;
    first[2] = 0x79622d32;
    first[3] = 0x6b206574;
    for (int k = 4; k < 12; k++)
        first[k] = k * 0x01010101u;
    first[12] = (uint)i;
    first[13] = first[14] = first[15] = nonce;
    for (int k = 0; k < 16; k++)
        s[k] = first[k];
    for (int round = 0; round < 10; round++) {
        QUARTER(0, 4, 8, 12) QUARTER(1, 5, 9, 13) QUARTER(2, 6, 10, 14) QUARTER(3, 7, 11, 15)
        QUARTER(0, 5, 10, 15) QUARTER(1, 6, 11, 12) QUARTER(2, 7, 8, 13) QUARTER(3, 4, 9, 14)
    }
    for (int k = 0; k < 16; k++)
        out[i * 16 + k] = in[i * 16 + k] ^ (s[k] + first[k]);
}

kernel void xtea(uint4 key, global const uint2 *in, global uint2 *out) {
    size_t i = get_global_id(0);
    uint words[4] = {key.x, key.y, key.z, key.w};
    uint a = in[i].x, b = in[i].y, sum = 0;
    for (int round = 0; round < 32; round++) {
        a += ((b << 4 ^ b >> 5) + b) ^ (sum + words[sum & 3]);
        sum += 0x9e3779b9u;
        b += ((a << 4 ^ a >> 5) + a) ^ (sum + words[sum >> 11 & 3]);
    }
    out[i] = (uint2)(a, b);
}

// A stream of bytes from a permutation of each work-item's own.
kernel void permuted_stream(int length, global const uchar *keys, global uchar *out) {
    size_t i = get_global_id(0);
    uchar order[256];
    for (int k = 0; k < 256; k++)
        order[k] = k;
    uchar at = 0;
    for (int k = 0; k < 256; k++) {
        uchar value = order[k];
        at += value + keys[i * 16 + (k & 15)];
        order[k] = order[at];
        order[at] = value;
    }
    uchar one = 0, other = 0;
    for (int k = 0; k < length; k++) {
        one++;
        uchar value = order[one];
        other += value;
        order[one] = order[other];
        order[other] = value;
        out[i * length + k] = order[(uchar)(order[one] + value)];
    }
}

// Rounds of four look-ups for each word, as in AES, with a table that is passed.
kernel void table_rounds(constant uint *table, constant uint *keys, global const uint4 *in,
                         global uint4 *out) {
    size_t i = get_global_id(0);
    uint4 s = in[i];
    for (int round = 0; round < 10; round++) {
        uint4 t;
        t.x = table[s.x & 255] ^ rotate(table[s.y >> 8 & 255], 8u) ^ rotate(table[s.z >> 16 & 255], 16u) ^
              rotate(table[s.w >> 24], 24u) ^ keys[4 * round];
        t.y = table[s.y & 255] ^ rotate(table[s.z >> 8 & 255], 8u) ^ rotate(table[s.w >> 16 & 255], 16u) ^
              rotate(table[s.x >> 24], 24u) ^ keys[4 * round + 1];
        t.z = table[s.z & 255] ^ rotate(table[s.w >> 8 & 255], 8u) ^ rotate(table[s.x >> 16 & 255], 16u) ^
              rotate(table[s.y >> 24], 24u) ^ keys[4 * round + 2];
        t.w = table[s.w & 255] ^ rotate(table[s.x >> 8 & 255], 8u) ^ rotate(table[s.y >> 16 & 255], 16u) ^
              rotate(table[s.z >> 24], 24u) ^ keys[4 * round + 3];
        s = t;
    }
    out[i] = s;
}

kernel void count_bits(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint x = in[i];
    out[i] = popcount(x) + (clz(x) << 8) + (popcount(x & -x) << 16);
}

kernel void reverse_bits(global const uint *in, global uint *out) {
    size_t i = get_global_id(0);
    uint x = in[i];
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    out[i] = x >> 16 | x << 16;
}

kernel void morton(global const ushort2 *in, global uint *out) {
    size_t i = get_global_id(0);
    uint2 x = convert_uint2(in[i]);
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    x = (x | x << 2) & 0x33333333u;
    x = (x | x << 1) & 0x55555555u;
    out[i] = x.x | x.y << 1;
}

// How often `3 n + 1` and halves alternate until 1.
kernel void collatz(global uint *out) {
    size_t i = get_global_id(0);
    ulong n = i + 1;
    uint steps = 0;
    while (n != 1) {
        n = n & 1 ? 3 * n + 1 : n / 2;
        steps++;
    }
    out[i] = steps;
}

kernel void greatest_divisor(global const uint *a, global const uint *b, global uint *out) {
    size_t i = get_global_id(0);
    uint x = a[i] | 1, y = b[i] | 1;
    while (y != 0) {
        uint rest = x % y;
        x = y;
        y = rest;
    }
    out[i] = x;
}

kernel void smallest_factor(uint first, global uint *out) {
    size_t i = get_global_id(0);
    uint n = first + 2 * (uint)i + 1, found = n;
    for (uint factor = 3; factor * factor <= n; factor += 2)
        if (n % factor == 0) {
            found = factor;
            break;
        }
    out[i] = found;
}

kernel void modular_power(uint modulus, global const uint *base, global uint *out) {
    size_t i = get_global_id(0);
    ulong power = base[i] % modulus, result = 1;
    for (uint exponent = modulus - 2; exponent > 0; exponent /= 2) {
        if (exponent & 1)
            result = result * power % modulus;
        power = power * power % modulus;
    }
    out[i] = (uint)result;
}
