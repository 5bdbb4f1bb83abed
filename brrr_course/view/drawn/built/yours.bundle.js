var yours=(()=>{var B=Object.defineProperty;var ee=Object.getOwnPropertyDescriptor;var te=Object.getOwnPropertyNames;var oe=Object.prototype.hasOwnProperty;var ne=(e,t)=>{for(var o in t)B(e,o,{get:t[o],enumerable:!0})},re=(e,t,o,n)=>{if(t&&typeof t=="object"||typeof t=="function")for(let r of te(t))!oe.call(e,r)&&r!==o&&B(e,r,{get:()=>t[r],enumerable:!(n=ee(t,r))||n.enumerable});return e};var se=e=>re(B({},"__esModule",{value:!0}),e);var Ce={};ne(Ce,{SIZES:()=>Y,measure:()=>xe});var C=`// Each invocation reads four elements of x, does its steps with them, and writes them to y. What stands in place of the line STEPS is
// written out step by step, so that no loop takes part of the time; none is a copy. The four are independent chains.
struct Numbers { a: vec4<f32>, b: vec4<f32> } // no constants: a compiler that knew them might write the steps in another way
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> by: Numbers;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.y * groups.x * 64u + id.x; // a second dimension where one cannot count all workgroups
  if (i >= arrayLength(&y)) { return; }
  var v = x[i];
  // STEPS
  y[i] = v;
}
`;var j=`// One thread adds 1 to a counter: so many dispatches ran as the counter says.
@group(0) @binding(2) var<storage, read_write> counter: array<f32>;

@compute @workgroup_size(1)
fn main() {
  counter[0] += 1.0;
}
`;var L=`// c = a b of n x n matrices, a result an invocation: each reads its row and its column by itself.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let n = u32(round(sqrt(f32(arrayLength(&c)))));
  if (max(id.x, id.y) >= n) { return; }
  var sum = 0.0;
  for (var k = 0u; k < n; k++) { sum += a[id.y * n + k] * b[k * n + id.x]; }
  c[id.y * n + id.x] = sum;
}
`;var R=`// c = a b of n x n matrices, 64 x 64 results a workgroup, 4 x 4 an invocation: what a workgroup reads into its own memory is used 64 times,
// what an invocation reads there 4 times. Beyond the edges stand zeros.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
var<workgroup> left: array<vec4<f32>, 272>; // at [k][row / 4]: of a, four rows' numbers; 17 apart, since neighbours at 16 would wait for one bank
var<workgroup> right: array<vec4<f32>, 256>; // at [k][column / 4]: of b, four columns'

fn of_a(n: u32, row: u32, k: u32) -> f32 { return select(0.0, a[row * n + k], max(row, k) < n); }
fn of_b(n: u32, k: u32, column: u32) -> f32 { return select(0.0, b[k * n + column], max(k, column) < n); }

fn store(n: u32, row: u32, column: u32, sums: vec4<f32>) {
  for (var j = 0u; j < 4u; j++) {
    if (max(row, column + j) < n) { c[row * n + column + j] = sums[j]; }
  }
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) tile: vec3<u32>, @builtin(local_invocation_id) me: vec3<u32>) {
  let n = u32(round(sqrt(f32(arrayLength(&c)))));
  let to = 64u * tile + 4u * me;
  var sums = mat4x4<f32>();
  for (var k = 0u; k < n; k += 16u) {
    let at = k + me; // neighbours read neighbours, of a too
    left[17u * me.x + me.y] = vec4<f32>(of_a(n, to.y, at.x), of_a(n, to.y + 1u, at.x), of_a(n, to.y + 2u, at.x), of_a(n, to.y + 3u, at.x));
    right[16u * me.y + me.x] = vec4<f32>(of_b(n, at.y, to.x), of_b(n, at.y, to.x + 1u), of_b(n, at.y, to.x + 2u), of_b(n, at.y, to.x + 3u));
    workgroupBarrier();
    for (var j = 0u; j < 16u; j++) {
      let down = left[17u * j + me.y];
      let across = right[16u * j + me.x];
      sums += mat4x4<f32>(down.x * across, down.y * across, down.z * across, down.w * across);
    }
    workgroupBarrier();
  }
  store(n, to.y, to.x, sums[0]);
  store(n, to.y + 1u, to.x, sums[1]);
  store(n, to.y + 2u, to.x, sums[2]);
  store(n, to.y + 3u, to.x, sums[3]);
}
`;var l=(...e)=>e.map(t=>2**t),Y={run_ahead:l(10,14,16,18,20,22,24),repeat:l(0,2,3,4,5,6,7,9),elements:l(16,20,24),fusion:l(10,14,18,20,22,24,26),matmul:l(6,7,8,9,10,11,12,13)},P={launch:2,repeat:8,copy:1,fusion:14,run_ahead:7,matmul:10},fe=.05,O=.5,me=100,pe=.05,de=2,S=1+1.5/128,H=1.25/128,x=20,he=64,_=65521,ge=["maxBufferSize","maxStorageBufferBindingSize","maxComputeWorkgroupsPerDimension"],ye="WebGPU needs a secure page: open this one by https, from localhost or as a file.",le="This browser has no WebGPU. Chrome and Edge have it from 113 on (on Linux from 144 on), Safari from 26 on, Firefox from 141 on, not on Linux.",we="This browser has WebGPU but found no GPU for it; chrome://gpu or, in Firefox, about:support says why. A newer driver may help.",$="one call takes too long",k="no time was left",ve="it does not fit into the memory that a page may take";async function xe({progress:e=()=>{},stopped:t=()=>!1,seconds:o=30,gpu:n=globalThis.navigator?.gpu,clock:r=performance,sizes:i={},rounds:a=7}={}){let u=()=>r.now()/1e3,s={now:u,stopped:t,rounds:a,end:u()+o,sizes:{...Y,...i},pipelines:new Map};Object.assign(s,{rows:[],said:[],left:{},doubted:[],hides:Number(document.hidden)}),await _e(s,n);let c=()=>{s.hides+=document.hidden};document.addEventListener("visibilitychange",c);try{await Ee(s);for(let f in P)await Ue(s,f,e)}catch(f){await Promise.race([s.gone,Q(100)]).catch(()=>{}),s.said.push((s.lost??f.message)+(s.rows.length?" What was measured until then is kept.":""))}return document.removeEventListener("visibilitychange",c),s.closing=!0,s.device.destroy(),ze(s)}var Q=e=>new Promise(t=>setTimeout(t,e));async function _e(e,t){if(!t)throw new Error(globalThis.isSecureContext===!1?ye:le);let o=await t.requestAdapter({powerPreference:"high-performance"});if(!o)throw new Error(we);let n=Object.fromEntries(ge.map(y=>[y,o.limits[y]])),r=o.features.has("timestamp-query"),i=e.device=await o.requestDevice({requiredFeatures:r?["timestamp-query"]:[],requiredLimits:n}),{vendor:a,architecture:u,description:s,device:c,isFallbackAdapter:f}=o.info,p=new Date().toISOString().slice(0,10),h=!!f||/swiftshader|llvmpipe|lavapipe|basic render|warp/i.test([a,u,s,c]),m=navigator.userAgent,[,d,g]=m.match(/(Edg|Firefox|Version)\/(\d+)/)??m.match(/(Chrome)\/(\d+)/)??["",m,""],v=`${{Edg:"Edge",Version:"Safari"}[d]??d} ${g}`;e.about={vendor:a,architecture:u,description:s||c,browser:v,date:p,software:h,limits:n},h&&e.said.push("A processor plays this GPU: its times show the shapes, not a GPU's speed."),e.gone=i.lost.then(({reason:y,message:U})=>{if(!e.closing)throw new Error(e.lost=`The GPU was lost (${[y,U].filter(Boolean).join(": ")}).`)}),e.gone.catch(()=>{}),i.addEventListener("uncapturederror",({error:y})=>{e.trouble??=` (${y.message})`}),r&&(e.stamps=i.createQuerySet({type:"timestamp",count:2}))}async function Ee(e){let{device:t,sizes:o}=e,n="read-only-storage",r=[n,n,"storage","uniform"];e.bindings=t.createBindGroupLayout({entries:r.map((u,s)=>({binding:s,visibility:GPUShaderStage.COMPUTE,buffer:{type:u}}))}),e.layout=t.createPipelineLayout({bindGroupLayouts:[e.bindings]}),e.tick=Se(e.now),e.shortest=Math.min(O,Math.max(fe,me*e.tick));let i=(navigator.deviceMemory??4)*2**25,a=4*Math.max(...o.run_ahead,...o.fusion,...o.elements,...o.matmul.map(u=>u*u));for(e.bytes=4*Math.floor(Math.min(a,i,t.limits.maxBufferSize,t.limits.maxStorageBufferBindingSize)/4);!await Pe(e);)e.bytes=16*Math.floor(e.bytes/32);e.drawn={x:D(e,e.x),r:D(e,e.r)},e.numbers=V(t,Float32Array.from({length:8},(u,s)=>s<4?S:H),GPUBufferUsage.UNIFORM),e.elements=o.elements.filter(u=>4*u<=e.bytes).at(e.about.software?0:-1)}async function Pe(e){let{device:t}=e,o=GPUBufferUsage.STORAGE|GPUBufferUsage.COPY_SRC|GPUBufferUsage.COPY_DST;t.pushErrorScope("out-of-memory");for(let r of"xryz")e[r]=t.createBuffer({size:e.bytes,usage:o});let n=await Promise.race([t.popErrorScope(),e.gone]);if(n)for(let r of"xryz")e[r].destroy();return!n}function D({device:e,bytes:t},o){let n=Float32Array.from({length:_},()=>2*Math.random()-1),r=V(e,n,GPUBufferUsage.COPY_SRC);return w(e,i=>{for(let a=0;a<t;a+=4*_)i.copyBufferToBuffer(r,0,o,a,Math.min(4*_,t-a))}),i=>n[i%_]}function V(e,t,o){let n=e.createBuffer({size:t.byteLength,usage:o|GPUBufferUsage.COPY_DST});return e.queue.writeBuffer(n,0,t),n}function w(e,t){let o=e.createCommandEncoder();t(o),e.queue.submit([o.finish()])}function Se(e){let t=[e()];for(let o;t.length<10;)(o=e())>t.at(-1)&&t.push(o);return Math.min(...t.slice(1).map((o,n)=>o-t[n]))}var N=e=>`v = fma(v, by.a, by.b);
`.repeat(e),W=e=>t=>t*S**e+H*(S**e-1)/(S-1),q=`v *= 1.75;
`,I=`v += r[i];
`,F=`v = max(v, vec4<f32>());
`,Me=(e,t)=>Math.max(0,1.75*e+t),ke={launch(e){let t=[G(e,j,"x","y",4,[1])],o={point:{},dispatches:t,size:1,result:"y",calls:100,at:()=>100,tolerance:0,flop:1,bytes:8};return[{...o,variant:"alone",waits:!0},{...o,variant:"among"}]},copy:(e,t)=>[E(e,t,"xy",[""],o=>o)],repeat(e,t){let{elements:o}=e,n={variant:"webgpu-fma",point:{repeat:t,elements:o,dtype:"float32"},flop:2*t*o,tolerance:4e-5};return[{...E(e,o,"xy",[N(t)],W(t)),...n}]},run_ahead:(e,t)=>[{...E(e,t,`x${"yz".repeat(x/2)}`,Array(x).fill(N(1)),W(x)),flop:2*x*t,passes:!0}],fusion(e,t){let o={point:{elements:t,dtype:"float32"},flop:3*t,bytes:12*t},n=(r,i,a)=>({...E(e,t,i,a,Me),...o,variant:r});return[n("webgpu-chain","xyzy",[q,I,F]),n("webgpu-chain-fused","xy",[q+I+F])]},matmul(e,t){let{x:o,r:n}=e.drawn,r=u=>Array.from({length:t},(s,c)=>o(u-u%t+c)*n(c*t+u%t)).reduce((s,c)=>s+c),i={point:{size:t},size:t*t,result:"y",at:r,tolerance:1e-4,flop:2*t**3,bytes:12*t*t,waits:!0},a=(u,s)=>G(e,u,"x","y",4*t*t,[Math.ceil(t/s),Math.ceil(t/s)]);return[{...i,variant:"webgpu-naive",dispatches:[a(L,16)]},{...i,variant:"webgpu",dispatches:[a(R,64)]}]}};function E(e,t,o,n,r){let i=Math.ceil(t/256),a=Math.ceil(i/e.device.limits.maxComputeWorkgroupsPerDimension),u=(p,h)=>G(e,C.replace("// STEPS",p),o[h],o[h+1],4*t,[Math.ceil(i/a),a]),s=n.map(u),c=p=>r(e.drawn.x(p),e.drawn.r(p)),f=8*t*n.length;return{variant:"webgpu",point:{elements:t},dispatches:s,size:t,result:o.at(-1),at:c,tolerance:1e-5,flop:0,bytes:f}}function G({device:e,pipelines:t,layout:o,bindings:n,...r},i,a,u,s,c){t.has(i)||t.set(i,e.createComputePipeline({layout:o,compute:{module:e.createShaderModule({code:i})}}));let f=[{buffer:r[a],size:s},{buffer:r.r,size:s},{buffer:r[u],size:s},{buffer:r.numbers}],p=e.createBindGroup({layout:n,entries:f.map((h,m)=>({binding:m,resource:h}))});return{pipeline:t.get(i),group:p,grid:c}}async function Ue(e,t,o){let n=Object.keys(P),r=n.indexOf(t),i=n.slice(r).reduce((p,h)=>p+P[h],0),a=e.about.software?e.elements:4*Math.floor(e.bytes/16),u={launch:[1],copy:[a]}[t]??e.sizes[t];e.due=e.now()+(e.end-e.now())*P[t]/i;let s="",c=0,f;for(let[p,h]of u.entries()){let m=e.now();o({share:(r+p/u.length)/n.length,experiment:t,value:h}),4*(t==="matmul"?h*h:h)>e.bytes?s||=ve:p&&m+c>e.due&&(s||=k),s||([s,f]=await Be(e,ke[t](e,h).map(d=>({...d,experiment:t})),f)),s&&(e.left[`${t} is left out, since ${s}, at`]??=[]).push(h),c=e.now()-m}}async function Be(e,t,o){let[{flop:n,bytes:r,waits:i}]=t,a=[],u=t.map(()=>[]);if(o&&o*(n+r)*(i?1:4)>O)return[$];for(let s of t)await be(e,s)&&a.push(s);for(let s of a)if(!await Ae(e,s))return[M(e)?k:$];for(;a.length&&u[0].length<e.rounds;){for(;document.hidden&&!M(e);)await Promise.race([Q(50),e.gone]);if(M(e))return[k];let s=e.hides,c=[];for(let f of a)c.push(await Z(e,f));s===e.hides&&c.forEach((f,p)=>u[p].push(f))}for(let[s,c]of a.entries())c.took=await Oe(e,c,u[s]);return["",a.length&&Math.max(...a.map(({took:s})=>s))/(n+r)]}var b=({times:e})=>(e.latency_s??e.period_s)[0];function M(e){if(e.stopped())throw new Error("The reader stopped it.");return e.now()>e.end}async function be(e,t){let o=[0,t.size-1,...Array.from({length:he},()=>Math.floor(t.size*Math.random()))],n=o.map(t.at);w(e.device,i=>i.clearBuffer(e[t.result])),z(e,t,t.calls??1);let r=await K(e,e[t.result],o);return t.error=Math.hypot(...n.map((i,a)=>r[a]-i))/Math.hypot(...n),t.error<=t.tolerance?!0:(e.said.push(`${T(t)} is wrong by ${t.error.toPrecision(2)} and left out${e.trouble??""}.`),!1)}var T=({experiment:e,variant:t,point:{dtype:o,...n}})=>[e,t,...Object.entries(n).map(r=>r.join(" "))].join(", ");async function K({device:e,gone:t},o,n){let r=e.createBuffer({size:4*n.length,usage:GPUBufferUsage.MAP_READ|GPUBufferUsage.COPY_DST});return w(e,i=>n.forEach((a,u)=>i.copyBufferToBuffer(o,4*a,r,4*u,4))),await Promise.race([r.mapAsync(GPUMapMode.READ),t]),new Float32Array(r.getMappedRange())}function z({device:e},{dispatches:t,passes:o},n,r){let i=Array(n).fill(t);for(let a of o?i:[i.flat()])w(e,u=>{let s=u.beginComputePass({timestampWrites:r});for(let{pipeline:c,group:f,grid:p}of a)s.setPipeline(c),s.setBindGroup(0,f),s.dispatchWorkgroups(...p);s.end()})}async function A(e,t,o){let n=e.now();z(e,t,o);let r=e.now()-n;return await Promise.race([e.device.queue.onSubmittedWorkDone(),e.gone]),[r,e.now()-n]}async function Z(e,t){let{count:o,waits:n}=t,r=[0,0];for(let s=0;n&&s<o;s++)(await A(e,t,1)).forEach((c,f)=>{r[f]+=c});if(n)return[r[0]/o,r[1]/o,r[1]];let[i,a]=await A(e,t,o),u=await A(e,t,o/4);return[i/o,(a-u[1])/(.75*o),a]}async function Ae(e,t){let o=t.count=t.waits?1:4,n=e.shortest*(t.waits?.4:1),r=e.now()+Math.min(de,(e.due-e.now())/8);for(let i=0;!M(e);){let[,a,u]=await Z(e,t),s=1.15*n/Math.max(u,e.tick);if(u>O&&t.count===o)return!1;if(u<n)t.count=o*Math.ceil(t.count/o*Math.min(16,Math.max(1.5,s)));else if(Math.abs(a-i)<=pe*a||e.now()>r)return!0;i=a}return!1}function Ge(e,t){let o=[...e].sort((i,a)=>i-a),n=(o.length-1)/2,r=(o[Math.floor(n)]+o[Math.ceil(n)])/2;return[r,Math.max(0,Math.min(o[0],r-t)),Math.max(o.at(-1),r+t),o.length]}async function Oe(e,t,o){let{experiment:n,variant:r,point:i,flop:a,bytes:u,error:s,waits:c,passes:f,count:p}=t,h=e.tick/(c?Math.sqrt(p):.75*p),[m,d]=[0,1].map(J=>Ge(o.map(X=>X[J]),h)),[g,v,y]=d;y>2*v&&e.said.push(`${T(t)} is too noisy${g>0?"":" to be kept"}: from ${v.toExponential(1)} to ${y.toExponential(1)} s.`);let U={...(c||f)&&{host_s:m},[c?"latency_s":"period_s"]:d};return g>0&&e.rows.push({experiment:n,variant:r,point:i,times:U,flop:a,bytes:u,error:s}),g>0&&e.stamps&&!c&&!f&&await Te(e,t,g),g}async function Te(e,t,o){let{device:n,stamps:r}=e,i=n.createBuffer({size:16,usage:GPUBufferUsage.QUERY_RESOLVE|GPUBufferUsage.COPY_SRC});z(e,t,t.count,{querySet:r,beginningOfPassWriteIndex:0,endOfPassWriteIndex:1}),w(n,f=>f.resolveQuerySet(r,0,2,i,0));let{buffer:a}=await K(e,i,[0,1,2,3]),[u,s]=new BigUint64Array(a),c=Number(s-u)/1e9/t.count;c<=2*o&&o<=2*c||e.doubted.push(`${T(t)} (${c.toExponential(1)} s, not ${o.toExponential(1)} s)`)}function ze({rows:e,said:t,left:o,hides:n,doubted:r,about:i,tick:a}){if(!e.length)throw new Error(t.at(-1)??`Nothing was measured: ${k}.`);t.push(...Object.entries(o).map(([m,d])=>`${m} ${d.join(", ")}.`)),n&&t.push("The tab was hidden meanwhile: what was timed then was thrown away, and repeated while there was time."),r.length&&t.push(`The GPU's time stamps disagree by more than a factor of two: ${r.join("; ")}.`);let u=m=>e.filter(({experiment:d})=>d===m),s=(m,d)=>m&&m[d]/b(m),c=Object.fromEntries(u("launch").map(({variant:m,times:d})=>[m,d.latency_s??d.period_s])),f={bytes_per_s:s(u("copy")[0],"bytes"),flop_per_s:s(u("repeat").at(-1),"flop")},p=m=>u("matmul").filter(({point:d})=>d.size===m.point.size).reduce((d,g)=>b(g)<b(d)?g:d),h=u("matmul").map(m=>m.variant==="webgpu"?{...p(m),variant:"webgpu"}:m);return{device:{...i,tick_s:a},said:t,rows:[...["repeat","fusion","run_ahead"].flatMap(u),...h],launch:c,peaks:f}}return se(Ce);})();
