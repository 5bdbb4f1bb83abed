var yours=(()=>{var B=Object.defineProperty;var ee=Object.getOwnPropertyDescriptor;var te=Object.getOwnPropertyNames;var oe=Object.prototype.hasOwnProperty;var re=(e,t)=>{for(var o in t)B(e,o,{get:t[o],enumerable:!0})},ne=(e,t,o,r)=>{if(t&&typeof t=="object"||typeof t=="function")for(let s of te(t))!oe.call(e,s)&&s!==o&&B(e,s,{get:()=>t[s],enumerable:!(r=ee(t,s))||r.enumerable});return e};var se=e=>ne(B({},"__esModule",{value:!0}),e);var Ce={};re(Ce,{SIZES:()=>Y,measure:()=>xe});var C=`// Each invocation reads four elements of x, does its steps with them, and writes them to y. What stands in place of the line STEPS is
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
`;var w=(...e)=>e.map(t=>2**t),Y={run_ahead:w(10,14,16,18,20,22,24),repeat:w(0,2,3,4,5,6,7,9),elements:w(16,20,24),fusion:w(10,14,18,20,22,24,26),matmul:w(6,7,8,9,10,11,12,13)},P={launch:2,repeat:8,copy:1,fusion:14,run_ahead:7,matmul:10},fe=.05,O=.5,me=100,pe=.05,de=2,S=1+1.5/128,H=1.25/128,x=20,he=64,_=65521,ge=["maxBufferSize","maxStorageBufferBindingSize","maxComputeWorkgroupsPerDimension"],ye="WebGPU needs a secure page: open this one by https, from localhost or as a file.",we="This browser has no WebGPU. Chrome and Edge have it from 113 on (on Linux from 144 on), Safari from 26 on, Firefox from 141 on, not on Linux.",le="This browser has WebGPU but found no GPU for it; chrome://gpu or, in Firefox, about:support says why. A newer driver may help.",$="one call takes too long",k="no time was left",ve="it does not fit into the memory that a page may take";async function xe({progress:e=()=>{},stopped:t=()=>!1,seconds:o=30,gpu:r=globalThis.navigator?.gpu,clock:s=performance,sizes:i={},rounds:a=7}={}){let u=()=>s.now()/1e3,n={now:u,stopped:t,rounds:a,end:u()+o,sizes:{...Y,...i},pipelines:new Map};Object.assign(n,{rows:[],said:[],left:{},doubted:[],hides:Number(document.hidden)}),await _e(n,r);let c=()=>{n.hides+=document.hidden};document.addEventListener("visibilitychange",c);try{await Ee(n);for(let f in P)await Ue(n,f,e)}catch(f){await Promise.race([n.gone,Q(100)]).catch(()=>{}),n.said.push((n.lost??f.message)+(n.rows.length?" What was measured until then is kept.":""))}return document.removeEventListener("visibilitychange",c),n.closing=!0,n.device.destroy(),ze(n)}var Q=e=>new Promise(t=>setTimeout(t,e));async function _e(e,t){if(!t)throw new Error(globalThis.isSecureContext===!1?ye:we);let o=await t.requestAdapter({powerPreference:"high-performance"});if(!o)throw new Error(le);let r=Object.fromEntries(ge.map(y=>[y,o.limits[y]])),s=o.features.has("timestamp-query"),i=e.device=await o.requestDevice({requiredFeatures:s?["timestamp-query"]:[],requiredLimits:r}),{vendor:a,architecture:u,description:n,device:c,isFallbackAdapter:f}=o.info,p=new Date().toISOString().slice(0,10),h=!!f||/swiftshader|llvmpipe|lavapipe|basic render|warp/i.test([a,u,n,c]),m=navigator.userAgent,[,d,g]=m.match(/(Edg|Firefox|Version)\/(\d+)/)??m.match(/(Chrome)\/(\d+)/)??["",m,""],v=`${{Edg:"Edge",Version:"Safari"}[d]??d} ${g}`;e.about={vendor:a,architecture:u,description:n||c,browser:v,date:p,software:h,limits:r},h&&e.said.push("A processor plays this GPU: its times show the shapes, not a GPU's speed."),e.gone=i.lost.then(({reason:y,message:U})=>{if(!e.closing)throw new Error(e.lost=`The GPU was lost (${[y,U].filter(Boolean).join(": ")}).`)}),e.gone.catch(()=>{}),i.addEventListener("uncapturederror",({error:y})=>{e.trouble??=` (${y.message})`}),s&&(e.stamps=i.createQuerySet({type:"timestamp",count:2}))}async function Ee(e){let{device:t,sizes:o}=e,r="read-only-storage",s=[r,r,"storage","uniform"];e.bindings=t.createBindGroupLayout({entries:s.map((u,n)=>({binding:n,visibility:GPUShaderStage.COMPUTE,buffer:{type:u}}))}),e.layout=t.createPipelineLayout({bindGroupLayouts:[e.bindings]}),e.tick=Se(e.now),e.shortest=Math.min(O,Math.max(fe,me*e.tick));let i=(navigator.deviceMemory??4)*2**25,a=4*Math.max(...o.run_ahead,...o.fusion,...o.elements,...o.matmul.map(u=>u*u));for(e.bytes=Math.min(a,i,t.limits.maxBufferSize,t.limits.maxStorageBufferBindingSize);!await Pe(e);)e.bytes=16*Math.floor(e.bytes/32);e.drawn={x:D(e,e.x),r:D(e,e.r)},e.numbers=V(t,Float32Array.from({length:8},(u,n)=>n<4?S:H),GPUBufferUsage.UNIFORM),e.elements=o.elements.filter(u=>4*u<=e.bytes).at(e.about.software?0:-1)}async function Pe(e){let{device:t}=e,o=GPUBufferUsage.STORAGE|GPUBufferUsage.COPY_SRC|GPUBufferUsage.COPY_DST;t.pushErrorScope("out-of-memory");for(let s of"xryz")e[s]=t.createBuffer({size:e.bytes,usage:o});let r=await Promise.race([t.popErrorScope(),e.gone]);if(r)for(let s of"xryz")e[s].destroy();return!r}function D({device:e,bytes:t},o){let r=Float32Array.from({length:_},()=>2*Math.random()-1),s=V(e,r,GPUBufferUsage.COPY_SRC);return l(e,i=>{for(let a=0;a<t;a+=4*_)i.copyBufferToBuffer(s,0,o,a,Math.min(4*_,t-a))}),i=>r[i%_]}function V(e,t,o){let r=e.createBuffer({size:t.byteLength,usage:o|GPUBufferUsage.COPY_DST});return e.queue.writeBuffer(r,0,t),r}function l(e,t){let o=e.createCommandEncoder();t(o),e.queue.submit([o.finish()])}function Se(e){let t=[e()];for(let o;t.length<10;)(o=e())>t.at(-1)&&t.push(o);return Math.min(...t.slice(1).map((o,r)=>o-t[r]))}var N=e=>`v = fma(v, by.a, by.b);
`.repeat(e),W=e=>t=>t*S**e+H*(S**e-1)/(S-1),q=`v *= 1.75;
`,I=`v += r[i];
`,F=`v = max(v, vec4<f32>());
`,Me=(e,t)=>Math.max(0,1.75*e+t),ke={launch(e){let t=[G(e,j,"x","y",4,[1])],o={point:{},dispatches:t,size:1,result:"y",calls:100,at:()=>100,tolerance:0,flop:1,bytes:8};return[{...o,variant:"alone",waits:!0},{...o,variant:"among"}]},copy:(e,t)=>[E(e,t,"xy",[""],o=>o)],repeat(e,t){let{elements:o}=e,r={variant:"webgpu-fma",point:{repeat:t,elements:o,dtype:"float32"},flop:2*t*o,tolerance:4e-5};return[{...E(e,o,"xy",[N(t)],W(t)),...r}]},run_ahead:(e,t)=>[{...E(e,t,`x${"yz".repeat(x/2)}`,Array(x).fill(N(1)),W(x)),flop:2*x*t,passes:!0}],fusion(e,t){let o=(i,a)=>E(e,t,i,a,Me),r={point:{elements:t,dtype:"float32"},flop:3*t};return[{...o("xyzy",[q,I,F]),...r,variant:"webgpu-chain",bytes:28*t},{...o("xy",[q+I+F]),...r,variant:"webgpu-chain-fused",bytes:12*t}]},matmul(e,t){let{x:o,r}=e.drawn,s=u=>Array.from({length:t},(n,c)=>o(u-u%t+c)*r(c*t+u%t)).reduce((n,c)=>n+c),i={point:{size:t},size:t*t,result:"y",at:s,tolerance:1e-4,flop:2*t**3,bytes:12*t*t,waits:!0},a=(u,n)=>G(e,u,"x","y",4*t*t,[Math.ceil(t/n),Math.ceil(t/n)]);return[{...i,variant:"webgpu-naive",dispatches:[a(L,16)]},{...i,variant:"webgpu",dispatches:[a(R,64)]}]}};function E(e,t,o,r,s){let i=Math.ceil(t/256),a=Math.ceil(i/e.device.limits.maxComputeWorkgroupsPerDimension),u=(p,h)=>G(e,C.replace("// STEPS",p),o[h],o[h+1],4*t,[Math.ceil(i/a),a]),n=r.map(u),c=p=>s(e.drawn.x(p),e.drawn.r(p)),f=8*t*r.length;return{variant:"webgpu",point:{elements:t},dispatches:n,size:t,result:o.at(-1),at:c,tolerance:1e-5,flop:0,bytes:f}}function G({device:e,pipelines:t,layout:o,bindings:r,...s},i,a,u,n,c){t.has(i)||t.set(i,e.createComputePipeline({layout:o,compute:{module:e.createShaderModule({code:i})}}));let f=[{buffer:s[a],size:n},{buffer:s.r,size:n},{buffer:s[u],size:n},{buffer:s.numbers}],p=e.createBindGroup({layout:r,entries:f.map((h,m)=>({binding:m,resource:h}))});return{pipeline:t.get(i),group:p,grid:c}}async function Ue(e,t,o){let r=Object.keys(P),s=r.indexOf(t),i=r.slice(s).reduce((p,h)=>p+P[h],0),a=e.about.software?e.elements:4*Math.floor(e.bytes/16),u={launch:[1],copy:[a]}[t]??e.sizes[t];e.due=e.now()+(e.end-e.now())*P[t]/i;let n="",c=0,f;for(let[p,h]of u.entries()){let m=e.now();o({share:(s+p/u.length)/r.length,experiment:t,value:h}),4*(t==="matmul"?h*h:h)>e.bytes?n||=ve:p&&m+c>e.due&&(n||=k),n||([n,f]=await Be(e,ke[t](e,h).map(d=>({...d,experiment:t})),f)),n&&(e.left[`${t} is left out, since ${n}, at`]??=[]).push(h),c=e.now()-m}}async function Be(e,t,o){let[{flop:r,bytes:s,waits:i}]=t,a=[],u=t.map(()=>[]);if(o&&o*(r+s)*(i?1:4)>O)return[$];for(let n of t)await be(e,n)&&a.push(n);for(let n of a)if(!await Ae(e,n))return[M(e)?k:$];for(;a.length&&u[0].length<e.rounds;){for(;document.hidden&&!M(e);)await Promise.race([Q(50),e.gone]);if(M(e))return[k];let n=e.hides,c=[];for(let f of a)c.push(await Z(e,f));n===e.hides&&c.forEach((f,p)=>u[p].push(f))}for(let[n,c]of a.entries())c.took=await Oe(e,c,u[n]);return["",a.length&&Math.max(...a.map(({took:n})=>n))/(r+s)]}var b=({times:e})=>(e.latency_s??e.period_s)[0];function M(e){if(e.stopped())throw new Error("The reader stopped it.");return e.now()>e.end}async function be(e,t){let o=[0,t.size-1,...Array.from({length:he},()=>Math.floor(t.size*Math.random()))],r=o.map(t.at);l(e.device,i=>i.clearBuffer(e[t.result])),z(e,t,t.calls??1);let s=await K(e,e[t.result],o);return t.error=Math.hypot(...r.map((i,a)=>s[a]-i))/Math.hypot(...r),t.error<=t.tolerance?!0:(e.said.push(`${T(t)} is wrong by ${t.error.toPrecision(2)} and left out${e.trouble??""}.`),!1)}var T=({experiment:e,variant:t,point:{dtype:o,...r}})=>[e,t,...Object.entries(r).map(s=>s.join(" "))].join(", ");async function K({device:e,gone:t},o,r){let s=e.createBuffer({size:4*r.length,usage:GPUBufferUsage.MAP_READ|GPUBufferUsage.COPY_DST});return l(e,i=>r.forEach((a,u)=>i.copyBufferToBuffer(o,4*a,s,4*u,4))),await Promise.race([s.mapAsync(GPUMapMode.READ),t]),new Float32Array(s.getMappedRange())}function z({device:e},{dispatches:t,passes:o},r,s){let i=Array(r).fill(t);for(let a of o?i:[i.flat()])l(e,u=>{let n=u.beginComputePass({timestampWrites:s});for(let{pipeline:c,group:f,grid:p}of a)n.setPipeline(c),n.setBindGroup(0,f),n.dispatchWorkgroups(...p);n.end()})}async function A(e,t,o){let r=e.now();z(e,t,o);let s=e.now()-r;return await Promise.race([e.device.queue.onSubmittedWorkDone(),e.gone]),[s,e.now()-r]}async function Z(e,t){let{count:o,waits:r}=t,s=[0,0];for(let n=0;r&&n<o;n++)(await A(e,t,1)).forEach((c,f)=>{s[f]+=c});if(r)return[s[0]/o,s[1]/o,s[1]];let[i,a]=await A(e,t,o),u=await A(e,t,o/4);return[i/o,(a-u[1])/(.75*o),a]}async function Ae(e,t){let o=t.count=t.waits?1:4,r=e.shortest*(t.waits?.4:1),s=e.now()+Math.min(de,(e.due-e.now())/8);for(let i=0;!M(e);){let[,a,u]=await Z(e,t),n=1.15*r/Math.max(u,e.tick);if(u>O&&t.count===o)return!1;if(u<r)t.count=o*Math.ceil(t.count/o*Math.min(16,Math.max(1.5,n)));else if(Math.abs(a-i)<=pe*a||e.now()>s)return!0;i=a}return!1}function Ge(e,t){let o=[...e].sort((i,a)=>i-a),r=(o.length-1)/2,s=(o[Math.floor(r)]+o[Math.ceil(r)])/2;return[s,Math.max(0,Math.min(o[0],s-t)),Math.max(o.at(-1),s+t),o.length]}async function Oe(e,t,o){let{experiment:r,variant:s,point:i,flop:a,bytes:u,error:n,waits:c,passes:f,count:p}=t,h=e.tick/(c?Math.sqrt(p):.75*p),[m,d]=[0,1].map(J=>Ge(o.map(X=>X[J]),h)),[g,v,y]=d;y>2*v&&e.said.push(`${T(t)} is too noisy${g>0?"":" to be kept"}: from ${v.toExponential(1)} to ${y.toExponential(1)} s.`);let U={...(c||f)&&{host_s:m},[c?"latency_s":"period_s"]:d};return g>0&&e.rows.push({experiment:r,variant:s,point:i,times:U,flop:a,bytes:u,error:n}),g>0&&e.stamps&&!c&&!f&&await Te(e,t,g),g}async function Te(e,t,o){let{device:r,stamps:s}=e,i=r.createBuffer({size:16,usage:GPUBufferUsage.QUERY_RESOLVE|GPUBufferUsage.COPY_SRC});z(e,t,t.count,{querySet:s,beginningOfPassWriteIndex:0,endOfPassWriteIndex:1}),l(r,f=>f.resolveQuerySet(s,0,2,i,0));let{buffer:a}=await K(e,i,[0,1,2,3]),[u,n]=new BigUint64Array(a),c=Number(n-u)/1e9/t.count;c<=2*o&&o<=2*c||e.doubted.push(`${T(t)} (${c.toExponential(1)} s, not ${o.toExponential(1)} s)`)}function ze({rows:e,said:t,left:o,hides:r,doubted:s,about:i,tick:a}){if(!e.length)throw new Error(t.at(-1)??`Nothing was measured: ${k}.`);t.push(...Object.entries(o).map(([m,d])=>`${m} ${d.join(", ")}.`)),r&&t.push("The tab was hidden meanwhile: what was timed then was thrown away, and repeated while there was time."),s.length&&t.push(`The GPU's time stamps disagree by more than a factor of two: ${s.join("; ")}.`);let u=m=>e.filter(({experiment:d})=>d===m),n=(m,d)=>m&&m[d]/b(m),c=Object.fromEntries(u("launch").map(({variant:m,times:d})=>[m,d.latency_s??d.period_s])),f={bytes_per_s:n(u("copy")[0],"bytes"),flop_per_s:n(u("repeat").at(-1),"flop")},p=m=>u("matmul").filter(({point:d})=>d.size===m.point.size).reduce((d,g)=>b(g)<b(d)?g:d),h=u("matmul").map(m=>m.variant==="webgpu"?{...p(m),variant:"webgpu"}:m);return{device:{...i,tick_s:a},said:t,rows:[...["repeat","fusion","run_ahead"].flatMap(u),...h],launch:c,peaks:f}}return se(Ce);})();
